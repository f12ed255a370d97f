"""Losses and gradients that are no finite numbers any more."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.learning.lost_gradients import LostGradients, Whose, lost_gradients
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import clock

SETTLE = 3.0
"""Seconds to wait for the other tasks' reports before a task is named: three reports. With less a late report would
leave the wrong worker, with more each loss is told later."""


def not_finite(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis while the newest loss of a task, or its gradients for long, are not finite.

    Such gradients in only a few steps are no fault: loss scaling skips these steps. Where gradients are known before
    the all-reduce, the subject is the worker whose gradients were not finite first; else it is the task, or the cluster
    where several report such a loss, as they do where gradients are shared. The diagnosis outlives the task's end:
    `TerminateOnNaN` ends the task at once.
    """
    lost = [task for task in tasks if task.not_finite_since is not None]
    gradients = lost_gradients(tasks)
    if not lost and not (gradients and gradients.lasts):
        return []
    begins = [(task, task.not_finite_since or 0.0) for task in lost]
    if not lost and gradients:
        begins = [(task, gradients.begin) for task in tasks if task.gradients and task.gradients.steps]
    patience = SETTLE if sum(task.meets for task in tasks) > 1 else 0.0
    if not any((task.at or 0.0) - begin >= patience for task, begin in begins):
        return []
    if gradients and not (lost and gradients.whose is Whose.UNKNOWN):
        return [_of_gradients(gradients)]
    return [_of_losses(lost)]


def _of_gradients(lost: LostGradients) -> Diagnosis:
    subject = lost.subjects[0] if lost.whose is Whose.ONE else CLUSTER
    evidence: Evidence = {
        "global_step": lost.step,
        "whose": lost.whose.value,
        "variables": lost.gradients.variables,
        "checked": lost.gradients.checked,
        "variable": lost.gradients.first or None,
    }
    return Diagnosis("not_finite", subject, lost.begin, None, "serious", lost.sentence, evidence=evidence)


def _of_losses(lost: Sequence[ObservedTask]) -> Diagnosis:
    first = min(lost, key=lambda task: task.not_finite_since or 0.0)
    begin, step = first.not_finite_since or 0.0, first.not_finite_step
    subject = first.name if len(lost) == 1 else CLUSTER
    where = "" if step is None else f", seen at step {step:,}"
    whose = f"the loss of {subject}" if len(lost) == 1 else "the loss"
    unknown = "" if len(lost) == 1 else "; whose gradients were the first is not known"
    sentence = (
        f"{whose} has not been a number since {clock(begin)}{where}: what is trained from here on is lost{unknown}"
    )
    return Diagnosis("not_finite", subject, begin, None, "serious", sentence, evidence={"global_step": step})
