"""Losses that are no finite numbers any more."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records import Diagnosis
from tfscale.core.text import clock

SETTLE = 3.0
"""Seconds to wait for the other tasks' reports before a task is named (chosen: three reports)."""


def not_finite(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return one diagnosis while the newest loss of a task is no finite number.

    Its subject is the task, or the cluster where several report it, as they do where gradients are shared. It holds
    also after the task has ended: `TerminateOnNaN` ends it at once.
    """
    lost = [task for task in tasks if task.not_finite_since is not None]
    patience = SETTLE if sum(task.meets for task in tasks) > 1 else 0.0
    if not any(_lasted(task) >= patience for task in lost):
        return []
    first = min(lost, key=lambda task: task.not_finite_since or 0.0)
    begin, step = first.not_finite_since or 0.0, first.not_finite_step
    subject = first.name if len(lost) == 1 else CLUSTER
    where = "" if step is None else f", seen at step {step:,}"
    whose = f"the loss of {subject}" if len(lost) == 1 else "the loss"
    sentence = f"{whose} has not been a number since {clock(begin)}{where}: what is trained from here on is lost"
    return [Diagnosis("not_finite", subject, begin, None, "serious", sentence, {"global_step": step})]


def _lasted(task: ObservedTask) -> float:
    """Return for how many seconds its loss has been no finite number, on its own host's clock."""
    return (task.at or 0.0) - (task.not_finite_since or 0.0)
