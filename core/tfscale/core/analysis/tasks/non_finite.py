"""Losses that are no numbers any more. No numpy: this rule must work in the smallest place."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.analysis.words import clock
from tfscale.core.records import Diagnosis
from tfscale.core.task import CLUSTER

SETTLE = 3.0
"""Seconds to wait for the other tasks' reports before it is said whose loss it is."""


def not_finite(tasks: Sequence[TaskView]) -> list[Diagnosis]:
    """One diagnosis while the newest loss of a task is no number: of the task, or of the cluster where several say so,
    as they do where gradients are shared. Also once the task has ended, as `TerminateOnNaN` ends it at once."""
    lost = [view for view in tasks if view.not_finite_since is not None]
    patience = SETTLE if sum(view.meets for view in tasks) > 1 else 0.0
    if not any(_lasted(view) >= patience for view in lost):
        return []
    first = min(lost, key=lambda view: view.not_finite_since or 0.0)
    begin, step = first.not_finite_since or 0.0, first.not_finite_step
    subject = first.name if len(lost) == 1 else CLUSTER
    where = "" if step is None else f", seen at step {step:,}"
    whose = f"the loss of {subject}" if len(lost) == 1 else "the loss"
    sentence = f"{whose} is not a number since {clock(begin)}{where}: what is trained from here on is lost"
    return [Diagnosis("not_finite", subject, begin, None, "serious", sentence, {"global_step": step})]


def _lasted(view: TaskView) -> float:
    """Seconds since when its loss is no number, on its own host's clock."""
    return (view.at or 0.0) - (view.not_finite_since or 0.0)
