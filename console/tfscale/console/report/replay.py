"""Plays what was measured through the same rules that watch live, and keeps every diagnosis that they make."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.console.report.csvfile import Measured
from tfscale.core.analysis.diagnose import Diagnostician
from tfscale.core.analysis.findings import by_severity
from tfscale.core.analysis.tasks import WARM_UP_STEPS
from tfscale.core.analysis.words import clock
from tfscale.core.cluster import Address, ClusterSpec
from tfscale.core.records import PHASES, Diagnosis, Frame, ProbeState, ProbeStatus, StepBatch, TaskState, TaskStatus
from tfscale.core.task import CLUSTER, Task

LOOK = 1.0
"""Seconds between two looks, as live; steps that last longer are looked at one by one."""


@dataclass(slots=True)
class Story:
    """Every diagnosis as it was told last; the key is what makes it the same one."""

    _told: dict[tuple[str, str, float], Diagnosis] = field(default_factory=dict)

    def add(self, diagnoses: Iterable[Diagnosis]) -> None:
        for each in diagnoses:
            self._told[each.kind, each.subject, each.begin] = each

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """The oldest first; of the same moment, the most severe."""
        return tuple(sorted(self._told.values(), key=lambda each: (each.begin, by_severity(each))))


def diagnose_measured(groups: Iterable[Measured]) -> tuple[Diagnosis, ...]:
    """The diagnoses of all groups; times are seconds from each group's first step on."""
    return tuple(each for group in groups for each in _diagnose_group(group))


def _diagnose_group(group: Measured) -> Iterator[Diagnosis]:
    observer = Diagnostician(_spec(group.workers))
    for worker in group.workers:
        observer.link(str(worker), True, 0.0)
    story, end = Story(), group.end
    for low, high in _looks(end):
        for column, worker in enumerate(group.workers):
            observer.fold(str(worker), _frame(group, column, low, high))
        story.add(observer.diagnose(float(end[high - 1])).diagnoses)
    return (_in_steps(each, group) for each in story.diagnoses)


def _looks(end: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """The rows that came between one look and the next."""
    edges = np.flatnonzero(np.diff(np.floor(end / LOOK))) + 1
    starts = [0, *map(int, edges)]
    return zip(starts, [*starts[1:], len(end)], strict=True)


def _spec(workers: Iterable[Task]) -> ClusterSpec:
    addresses = {worker: Address("localhost", 1 + port) for port, worker in enumerate(workers)}
    return ClusterSpec("measured", addresses, addresses)


def _frame(group: Measured, column: int, low: int, high: int) -> Frame:
    name = str(group.workers[column])
    first = min(int(group.step[0]), WARM_UP_STEPS)
    batch = StepBatch(
        generation=1,
        attempt=1,
        reporter=name,
        subject=name,
        # Measurements that begin later than at the first steps have no warm-up that would have to be left out.
        sequence=range(first + low, first + high),
        end=array("d", group.end[low:high]),
        global_step=array("Q", group.step[low:high].tolist()),
        **_phases(group, column, low, high),
    )
    status = TaskStatus(TaskState.RUNNING, generation=1, attempt=1, started=0.0)
    return Frame(low, float(group.end[high - 1]), status, ProbeStatus(ProbeState.MEASURING), steps=(batch,))


def _phases(group: Measured, column: int, low: int, high: int) -> dict[str, Any]:
    return {phase: array("f", group.phases[row, low:high, column]) for row, phase in enumerate(PHASES)}


def _in_steps(diagnosis: Diagnosis, group: Measured) -> Diagnosis:
    """With the steps in which it began and ended, by which the file counts its time."""
    evidence = {**diagnosis.evidence, "begin_step": _step_at(group, diagnosis.begin)}
    if diagnosis.end is not None:
        evidence["end_step"] = _step_at(group, diagnosis.end)
    if group.group:
        evidence["group"] = group.group
    sentence = diagnosis.sentence.replace(clock(diagnosis.begin), f"step {evidence['begin_step']}")
    if group.group and diagnosis.subject == CLUSTER:
        sentence = f"group {group.group}: {sentence}"
    # The change point may lie within the first step, which a straggler's own clock puts before its peers'.
    return replace(diagnosis, begin=max(0.0, diagnosis.begin), sentence=sentence, evidence=evidence)


def _step_at(group: Measured, at: float) -> int:
    """The first step that ended after this moment."""
    return int(group.step[min(int(np.searchsorted(group.end, at, side="right")), len(group.step) - 1)])
