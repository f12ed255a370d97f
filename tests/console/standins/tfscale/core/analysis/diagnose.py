"""Stands in for tfscale.core.analysis until it is merged: medians of the last steps, a crude straggler."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.core.cluster import ClusterSpec
from tfscale.core.records import PHASES, Diagnosis, Frame, TaskState


@dataclass(frozen=True)
class SubjectSummary:
    step: int | None = None
    global_step: int | None = None
    step_time: float | None = None
    update: float | None = None
    host: float | None = None
    input: float | None = None
    compute: float | None = None
    reduce: float | None = None
    wait: float | None = None
    lag: float | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Findings:
    diagnoses: tuple[Diagnosis, ...] = ()
    headline: str = ""
    step_time: float | None = None
    steps_per_second: float | None = None
    examples_per_second: float | None = None
    slowdown: float | None = None
    transfer: float | None = None
    subjects: Mapping[str, SubjectSummary] = field(default_factory=dict)


class Diagnostician:
    def __init__(self, _spec: ClusterSpec) -> None:
        self._rows: dict[str, deque[tuple[float, ...]]] = {}
        self._last: dict[str, tuple[int, int]] = {}
        self._open: dict[str, Diagnosis] = {}
        self._exits: dict[str, Diagnosis] = {}
        self._examples: int | None = None

    def fold(self, task: str, frame: Frame) -> None:
        if frame.probe and frame.probe.examples_per_step:
            self._examples = frame.probe.examples_per_step
        for batch in frame.steps:
            rows = self._rows.setdefault(batch.subject, deque(maxlen=50))
            rows.extend(zip(*(getattr(batch, phase) for phase in PHASES), strict=True))
            if len(batch.sequence):
                steps = batch.global_step if len(batch.global_step) else batch.sequence
                self._last[batch.subject] = (batch.sequence[-1], steps[-1])
        exit = frame.status.exit
        if frame.status.state is TaskState.EXITED and exit is not None:
            how = f"was killed by signal {exit.signal}" if exit.signal else f"exited {exit.code}"
            self._exits[task] = Diagnosis("crash", task, exit.at, None, "critical", f"{task} {how}")
        else:
            self._exits.pop(task, None)

    def link(self, task: str, up: bool, at: float) -> None:
        pass

    def diagnose(self, now: float) -> Findings:
        medians = {
            subject: [statistics.median(column) for column in zip(*rows, strict=True)]
            for subject, rows in self._rows.items()
            if rows
        }
        if not medians:
            return Findings((*self._exits.values(),), "Waiting for the first steps")
        transfer = min(values[-1] for values in medians.values())
        lags = {subject: sum(values[:-1]) for subject, values in medians.items()}
        subjects = {}
        for subject, values in medians.items():
            others = [lag for other, lag in lags.items() if other != subject]
            subjects[subject] = SubjectSummary(
                step=self._last[subject][0],
                global_step=self._last[subject][1],
                step_time=sum(values),
                wait=values[-1] - transfer,
                lag=lags[subject],
                ratio=lags[subject] / statistics.median(others) if others else None,
                **dict(zip(PHASES, values, strict=True)),
            )
        step = statistics.median(summary.step_time or 0 for summary in subjects.values())
        slow = max(subjects, key=lambda subject: lags[subject])
        ratio = subjects[slow].ratio or 1.0
        saved = lags[slow] - statistics.median(lags.values() if len(lags) > 2 else [min(lags.values())])
        ended = []
        headline = f"All {len(medians)} workers in step"
        if ratio > 1.1:
            sentence = f"{slow} is {ratio:.1f} times slower than its peers, in compute"
            begin = self._open[slow].begin if slow in self._open else now
            evidence: dict[str, float | str | None] = {"phase": "compute", "ratio": ratio}
            self._open[slow] = Diagnosis("straggler", slow, begin, None, "serious", sentence, evidence)
            headline = sentence
        for subject in [each for each in self._open if each != slow or ratio <= 1.1]:
            diagnosis = self._open.pop(subject)
            ended.append(Diagnosis("straggler", subject, diagnosis.begin, now, diagnosis.severity, diagnosis.sentence))
        if self._exits:
            headline = next(iter(self._exits.values())).sentence
        return Findings(
            (*self._exits.values(), *self._open.values(), *ended),
            headline,
            step,
            1 / step,
            self._examples / step if self._examples else None,
            step / (step - saved),
            transfer,
            subjects,
        )
