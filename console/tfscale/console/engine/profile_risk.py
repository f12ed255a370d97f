"""Risk of a profile: TensorFlow's profiler often ends the training process that it looks at."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.engine.checkpoint_age import checkpoint_age
from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.restart import plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.text import elapsed

MOST_LOST = 600.0
"""Seconds of training that a profile may put at risk (chosen): savers of most programs run every few minutes."""
RISK = "TensorFlow's profiler often ends the process that it looks at, and all that train with it"


def age_at_risk(snapshot: Snapshot, spec: ClusterSpec, tasks: Sequence[Task]) -> float | None:
    """Return the age, seconds, of the checkpoint to which profiles of these tasks may set back; None if unknown."""
    return checkpoint_age(snapshot, [plan_restart(spec, snapshot.strategy, [task]) for task in tasks])


def refusal(age: float | None) -> str | None:
    """Return why no profile is taken beside a newest checkpoint of this age; None where little can be lost."""
    if age is not None and age <= MOST_LOST:
        return None
    newest = "no checkpoint is known" if age is None else f"the last checkpoint is {elapsed(age)} old"
    return f"{RISK}, and {newest}: have the program save, and ask within {MOST_LOST / 60:.0f} min of that"
