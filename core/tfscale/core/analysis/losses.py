"""Losses that are no numbers any more. No numpy: this rule must work in the smallest place."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.core.analysis.tasks import TaskView
from tfscale.core.analysis.words import clock
from tfscale.core.records import Diagnosis
from tfscale.core.task import CLUSTER


def not_finite(tasks: Sequence[TaskView]) -> list[Diagnosis]:
    """One diagnosis while the newest loss of a running task is no number: of the task, or of the cluster where several
    say so, as they do where gradients are shared."""
    lost = [view for view in tasks if view.running and view.not_finite_since is not None]
    if not lost:
        return []
    begin, step = min((view.not_finite_since or 0.0, view.not_finite_step) for view in lost)
    subject = lost[0].name if len(lost) == 1 else CLUSTER
    where = "" if step is None else f", seen at step {step:,}"
    whose = f"the loss of {subject}" if len(lost) == 1 else "the loss"
    sentence = f"{whose} is not a number since {clock(begin)}{where}: what is trained from here on is lost"
    return [Diagnosis("not_finite", subject, begin, None, "serious", sentence, {"global_step": step})]
