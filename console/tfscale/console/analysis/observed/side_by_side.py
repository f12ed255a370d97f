"""Trainings side by side: tasks that make steps, and that no strategy of `tf.distribute` joins.

Nothing tells whether their programs exchange something by themselves, as with Horovod: these tasks are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import CLUSTER, Role
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import listing

_TO_JOIN = "For one training use MultiWorkerMirroredStrategy (examples/multi_worker_fit.py)"


def trainings_apart(tasks: Iterable[ObservedTask]) -> tuple[ObservedTask, ...]:
    """Return the running tasks whose steps no strategy joins, two or more; none beside parameter servers."""
    tasks = tuple(tasks)
    apart = tuple(task for task in tasks if task.meets and task.running and task.steps and task.is_joined is False)
    return apart if len(apart) > 1 and not any(task.task.role is Role.PS for task in tasks) else ()


def side_by_side(tasks: Iterable[ObservedTask], keeps_step: bool) -> list[Diagnosis]:
    """Return the finding that several trainings run side by side; none where they do not, or where nobody knows.

    Those that keep step all the same do not run side by side: something that is not seen holds them together.
    """
    apart = trainings_apart(tasks)
    if not apart:
        return []
    names = tuple(task.name for task in apart)
    sentence = (
        f"{listing(names)} keep step, though no strategy joins them: the script seems to exchange something itself. "
        "Who waits for whom in that is not measured, and nobody is compared"
        if keeps_step
        else f"{len(names)} trainings run side by side, unless the script exchanges something itself: no "
        f"strategy joins {listing(names)}, and nobody is compared. {_TO_JOIN}"
    )
    begin = max(task.status.started or 0.0 for task in apart if task.status)
    return [Diagnosis("not_measured", CLUSTER, begin, None, "warning", sentence, evidence={}, together=names)]
