"""Plays what was recorded or measured through the same rules that watch live, and keeps what they say."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.console.events import FrameArrived, LinkChanged, LinkState
from tfscale.console.report.contents import Group, Report, Timeline
from tfscale.console.report.csvfile import Measured
from tfscale.console.report.recording import Recorded
from tfscale.core.analysis.diagnostician import Diagnostician
from tfscale.core.analysis.findings import Findings, SubjectSummary, by_severity
from tfscale.core.analysis.run.scaling import Forecast, ring_forecast
from tfscale.core.analysis.tasks.observed_task import WARM_UP_STEPS
from tfscale.core.cluster import Address, ClusterSpec
from tfscale.core.records import (
    PHASES,
    Diagnosis,
    Frame,
    ProbeState,
    ProbeStatus,
    StepBatch,
    TaskState,
    TaskStatus,
)
from tfscale.core.task import Task, subject_order
from tfscale.core.text import clock

LOOK = 1.0
"""Seconds between two looks, as live; steps that last longer are looked at one by one."""


class Player:
    """A diagnostician, and everything that it has said."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.observer = Diagnostician(spec)
        self.timeline = Timeline()
        self.findings = Findings()
        self._told: dict[tuple[str, str, float], Diagnosis] = {}

    def look(self, now: float) -> None:
        """Diagnose at this moment of the past."""
        self.findings = self.observer.diagnose(now)
        self._told |= {(each.kind, each.subject, each.begin): each for each in self.findings.diagnoses}
        self.timeline.add(now, self.findings)

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """Each as it was told last, the oldest first; of the same moment, the most severe."""
        return tuple(sorted(self._told.values(), key=lambda each: (each.begin, by_severity(each))))


def report_recorded(path: Path, recorded: Recorded, name: str = "") -> Report:
    """The report of a recorded run, `name` telling it from others. Raises RecordingError where it goes on wrongly."""
    player = Player(recorded.spec)
    begin = now = due = None
    seen: dict[str, int] = {}
    probe: ProbeStatus | None = None
    for event in recorded.events:
        begin = event.at if begin is None else begin
        now = event.at if now is None else max(now, event.at)
        due = now + LOOK if due is None else due
        if now >= due:
            player.look(now)
            due = now + LOOK
        if isinstance(event, FrameArrived):
            player.observer.fold(str(event.task), event.frame)
            probe = event.frame.probe or probe
            for batch in event.frame.steps:
                seen[batch.subject] = seen.get(batch.subject, 0) + len(batch.sequence)
        elif isinstance(event, LinkChanged) and event.state is not LinkState.CONNECTING:
            player.observer.link(str(event.task), event.state is LinkState.UP, event.at)
    if begin is not None and now is not None:
        player.look(now)
    group = _group(name, player, begin or 0.0, now or 0.0, max(seen.values(), default=0), probe=probe)
    diagnoses = tuple(_of_run(each, name) for each in player.diagnoses)
    return Report(f"run {recorded.spec.name}", _facts(path, recorded.spec, group, probe), (group,), diagnoses)


def report_runs(runs: Sequence[tuple[Path, Recorded]]) -> Report:
    """Several recorded runs side by side. Raises RecordingError as `report_recorded`."""
    names = _names([path for path, _ in runs])
    made = [report_recorded(path, recorded, name) for name, (path, recorded) in zip(names, runs, strict=True)]
    facts = {
        name: ", ".join(f"{key} {value}" for key, value in each.facts.items())
        for name, each in zip(names, made, strict=True)
    }
    groups = tuple(group for each in made for group in each.groups)
    diagnoses = tuple(found for each in made for found in each.diagnoses)
    return Report(f"{len(made)} runs", facts, groups, diagnoses)


def _names(paths: Sequence[Path]) -> list[str]:
    """What tells the files apart: their stems, else their whole paths."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _of_run(diagnosis: Diagnosis, name: str) -> Diagnosis:
    if not name:
        return diagnosis
    return replace(diagnosis, sentence=f"{name}: {diagnosis.sentence}", evidence={**diagnosis.evidence, "group": name})


def report_measured(path: Path, groups: Iterable[Measured]) -> Report:
    """The report of measurements; times are seconds from each group's first step on."""
    played = [(group, _play(group)) for group in groups]
    made = [
        _group(group.group, player, 0.0, float(group.end[-1]), len(group.step), is_whole=False)
        for group, player in played
    ]
    diagnoses = tuple(_in_steps(each, group) for group, player in played for each in player.diagnoses)
    workers = {str(worker) for group, _ in played for worker in group.workers}
    facts = {"file": str(path), "workers": str(len(workers)), "steps": f"{max(group.steps for group in made):,}"}
    return Report(path.name, facts, tuple(made), diagnoses, has_clock=False)


def _facts(path: Path, spec: ClusterSpec, group: Group, probe: ProbeStatus | None) -> dict[str, str]:
    facts = {
        "file": str(path),
        "tasks": ", ".join(map(str, spec.tasks)) if len(spec.tasks) <= 8 else str(len(spec.tasks)),
    }
    if probe is not None:
        said = (probe.strategy, probe.tensorflow and f"TensorFlow {probe.tensorflow}", probe.keras)
        facts["program"] = ", ".join(each for each in said if each)
    facts |= {"from": clock(group.begin), "to": clock(group.end), "steps": f"{group.steps:,}"}
    if group.rate is not None:
        facts["steps/s"] = f"{group.rate:.3g}"
    return facts


def _group(
    name: str,
    player: Player,
    begin: float,
    end: float,
    steps: int,
    is_whole: bool = True,
    probe: ProbeStatus | None = None,
) -> Group:
    findings = player.findings
    subjects = {name: findings.subjects[name] for name in sorted(findings.subjects, key=subject_order)}
    tasks = {name: each for name, each in subjects.items() if "/" not in name} or subjects
    return Group(
        name,
        player.timeline,
        subjects,
        steps,
        begin,
        end,
        spent=findings.spent if is_whole else {},
        scaling=_scaling(tasks, findings),
        workers=(probe and probe.replicas) or len(tasks),
        examples=probe.examples_per_step if probe else None,
    )


def _scaling(subjects: Mapping[str, SubjectSummary], findings: Findings) -> tuple[Forecast, ...]:
    """What the ring model says of other sizes, from the last steps of a run of one size; nothing of a single worker."""
    lags = [each.lag for each in subjects.values() if each.lag is not None]
    workers = len(lags)
    if workers < 2 or not findings.transfer or findings.step_time is None:
        return ()
    lag = max(findings.step_time - findings.transfer, 1e-9)
    sizes = sorted({1, *(2**power for power in range(1, workers.bit_length() + 1)), workers, 2 * workers})
    return tuple(ring_forecast(lag, findings.transfer, workers, size) for size in sizes if size <= 2 * workers)


def _play(group: Measured) -> Player:
    player = Player(_spec(group.workers))
    for worker in group.workers:
        player.observer.link(str(worker), True, 0.0)
    for low, high in _looks(group.end):
        for column, worker in enumerate(group.workers):
            player.observer.fold(str(worker), _frame(group, column, low, high))
        player.look(float(group.end[high - 1]))
    return player


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
    sentence = diagnosis.sentence.replace(clock(diagnosis.begin), f"step {evidence['begin_step']}")
    if group.group:
        evidence["group"] = group.group
        sentence = f"group {group.group}: {sentence}"
    # The change point may lie within the first step, which a straggler's own clock puts before its peers'.
    return replace(diagnosis, begin=max(0.0, diagnosis.begin), sentence=sentence, evidence=evidence)


def _step_at(group: Measured, at: float) -> int:
    """The first step that ended after this moment."""
    return int(group.step[min(int(np.searchsorted(group.end, at, side="right")), len(group.step) - 1)])
