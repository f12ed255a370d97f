"""Workers whose batches are empty while the others train on.

A worker whose input ends before the others' gets batches without an example from `tf.distribute`, so that it still
meets the others in the all-reduce. Its steps are as fast as before, and add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock

PATIENCE = 5.0
"""Seconds for which batches must be empty to be reported. At the end of an epoch, inputs of slightly different
length end some batches apart: a shorter time would report each epoch's end, a longer one would report the loss
later."""


def empty_batches(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task with empty batches for some seconds up to its newest step."""
    known = [(task, task.probe.empty_since) for task in tasks if task.running and task.probe]
    return [
        _of(task.name, since)
        for task, since in known
        if since is not None and task.progressed is not None and task.progressed - since >= PATIENCE
    ]


def _of(name: str, since: float) -> Diagnosis:
    sentence = (
        f"{name} has had empty batches since {clock(since)}: its input seems to have ended, and its steps add nothing "
        "to the training"
    )
    return Diagnosis("empty_batches", name, since, None, "serious", sentence, evidence={})
