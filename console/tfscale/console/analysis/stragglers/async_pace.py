"""Stragglers among workers that meet in no collective: those of ParameterServerStrategy, each at its own pace.

No collective aligns their steps. The rule compares a worker's own time for a step (update + input + compute; in `host`
it waits for the chief's next function) with that of its peers in the same stretch of time: the chief reports all
workers, on one clock. The conditions are those of the straggler rule; but no worker waits for the slow one, so that it
costs the cluster only its own share of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import TINY, WINDOW, Blocks
from tfscale.console.analysis.steps.phases import medians, others_median
from tfscale.console.analysis.stragglers.named_stragglers import ReportedStraggler
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import (
    LENGTHS,
    Verdict,
    severity_of,
)
from tfscale.console.analysis.stragglers.straggler_watch import SubjectWatch
from tfscale.console.analysis.stragglers.straggler_words import (
    begin_of,
    evidence_of,
    slower_than_peers,
    together,
    what_is_lost,
)
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.step_batch import LAG_PHASES, PHASES
from tfscale.core.text import step_rate

OWN = (PHASES.index("update"), PHASES.index("input"), PHASES.index("compute"))
"""Rows of the phases in which a worker is at work by itself."""


class Pace(NamedTuple):
    """k steps of one worker with known phases, in order of time."""

    end: Floats
    """(k,) Unix seconds."""
    own: Floats
    """(k,) seconds in the phases of OWN."""
    step: Floats
    """(k,) seconds from the end of the step before."""
    phases: Floats
    """(4, k) seconds, in the order of LAG_PHASES."""

    @classmethod
    def of(cls, end: Floats, phases: Floats) -> Pace:
        """Return the pace of the known steps among (k,) ends and (5, k) phases."""
        own, step = phases[OWN, :].sum(axis=0), phases[:-1].sum(axis=0)
        is_known = np.isfinite(step)
        return cls(end[is_known], own[is_known], step[is_known], phases[:-1, is_known])

    def within(self, begin: float, end: float) -> Pace:
        """Return the steps that ended after `begin`, up to `end`, Unix seconds."""
        rows = slice(*np.searchsorted(self.end, [begin, end], side="right"))
        return Pace(self.end[rows], self.own[rows], self.step[rows], self.phases[:, rows])


PacesSince = Callable[[float], Sequence[Pace]]
"""Function of a time in Unix seconds: each worker's kept steps that ended after the time."""


class PaceBlocks(Blocks):
    """Blocks of time in each of which every worker ended a step at least; quick workers ended several."""

    def __init__(self, subjects: tuple[str, ...], window: float, begin: float, cut: Collection[str] = ()) -> None:
        super().__init__(subjects, window, cut)
        self.until = begin
        """Unix seconds up to which all steps are in a block."""
        self._steps = self._series()

    @property
    def steps(self) -> Floats:
        """(N, n) median seconds from step to step of each worker."""
        return self._steps.rows

    def part(self, column: int) -> float:
        """Return the share of the worker's time at work; only this share shrinks with a faster worker."""
        return float(np.median(self.lag[-WINDOW:, column]) / np.median(self.steps[-WINDOW:, column]))

    def append_paces(self, paces: Sequence[Pace]) -> None:
        """Append the workers' steps after `until`, up to the newest time that all workers have reported."""
        horizon = min(float(pace.end[-1]) if len(pace.end) else -np.inf for pace in paces)
        while (edge := self._edge(paces, horizon)) is not None:
            self._add([pace.within(self.until, edge) for pace in paces], edge)
            self.until = edge

    def _edge(self, paces: Sequence[Pace], horizon: float) -> float | None:
        """Return the end of the next block, None where some worker has not reported up to there."""
        if self.until + self.length > horizon:
            return None
        firsts = [float(pace.end[np.searchsorted(pace.end, self.until, side="right")]) for pace in paces]
        edge = max(self.until + self.length, *firsts)
        return edge if edge <= horizon else None

    def _add(self, paces: Sequence[Pace], edge: float) -> None:
        lag = np.maximum([np.median(pace.own) for pace in paces], TINY)[None]
        steps = np.maximum([np.median(pace.step) for pace in paces], TINY)[None]
        self._end.append(np.array([[edge]]))
        self._lag.append(lag)
        self._level.append(np.log(lag / others_median(lag)))
        self._step.append(np.median(steps, axis=1, keepdims=True))
        self._steps.append(steps)


@dataclass(slots=True)
class PaceWatch(SubjectWatch[PaceBlocks]):
    """Watch of workers at their own pace."""

    def restart(self, subjects: set[str]) -> None:
        """Forget these workers: they began anew, or ended."""
        self.named.drop(subjects)
        if self._blocks is not None:
            self.follow(tuple(subject for subject in self._blocks.subjects if subject not in subjects))

    def follow(self, subjects: tuple[str, ...]) -> float:
        """Watch these workers from now on.

        Returns the time, Unix seconds, up to which their steps are known; -inf where the history has to begin anew.
        """
        blocks = self._kept(subjects)
        return -np.inf if blocks is None else blocks.until

    def diagnose(
        self,
        subjects: tuple[str, ...],
        fresh: Sequence[Pace],
        paces_since: PacesSince,
        is_cut: Callable[[str], bool] = lambda _: False,
    ) -> list[Diagnosis]:
        """Return the open stragglers among these workers.

        `fresh` holds at least the steps after the time that `follow` returns; `paces_since` finds older steps again;
        `is_cut` decides of a worker whether older steps are not kept.
        """
        self.named.suspect = None
        if len(fresh) >= 2 and all(len(pace.end) for pace in fresh):
            if self._blocks is None:
                begin = max(float(pace.end[0]) for pace in fresh)
                cut = [*filter(is_cut, subjects)]
                self._blocks = PaceBlocks(subjects, self.rule.window(len(fresh)), begin, cut)
            self._blocks.append_paces(fresh)
            if len(self._blocks) >= LENGTHS[0]:
                self.named.judge(
                    self._blocks,
                    lambda verdicts: report(subjects, verdicts, paces_since(begin_of(verdicts))),
                )
        return self.named.diagnoses


def pace_figures(paces: Sequence[Pace], culprits: Sequence[int]) -> list[StragglerFigures]:
    """Measure the workers in these columns over a window with at least one step of each other worker."""
    own = np.array([np.median(pace.own) for pace in paces])
    steps = np.array([[np.median(pace.step) for pace in paces]])
    phases = np.array([np.median(pace.phases, axis=1) for pace in paces])
    peers = [other for other in range(len(paces)) if other not in culprits]
    usual, usual_phases = max(float(np.median(own[peers])), TINY), np.median(phases[peers], axis=0)
    lost, measured_at = shortfall(steps, culprits), max(float(pace.end[-1]) for pace in paces)
    return [
        StragglerFigures(
            ratio=float(max(own[column], TINY) / usual),
            phase=PHASES[max(OWN, key=lambda phase: float(phases[column, phase] - usual_phases[phase]))],
            excess=dict(zip(LAG_PHASES, (phases[column] - usual_phases).tolist(), strict=True)),
            own=dict(zip(LAG_PHASES, phases[column].tolist(), strict=True)),
            step=float(steps.max()),
            slowdown=lost,
            measured_at=measured_at,
        )
        for column in culprits
    ]


def shortfall(steps: Floats, culprits: Sequence[int]) -> float:
    """Return the steps of all workers with the culprits at their peers' median pace, over the present steps; >= 1.

    `steps` are (N, n) seconds from step to step, `culprits` columns of it.
    """
    made = 1 / medians(steps)
    peers = [column for column in range(len(made)) if column not in culprits]
    if not culprits or not peers:
        return 1.0
    ideal = made.copy()
    ideal[list(culprits)] = np.maximum(made[list(culprits)], np.median(made[peers]))
    return float(ideal.sum() / made.sum())


def report(subjects: tuple[str, ...], verdicts: Sequence[Verdict], paces: Sequence[Pace]) -> list[ReportedStraggler]:
    """Measure the stragglers over these steps, and describe all; empty where a worker has no step."""
    if not all(len(pace.end) for pace in paces):
        return []
    measured = pace_figures(paces, [verdict.column for verdict in verdicts])
    rates = [1 / float(np.median(pace.step)) for pace in paces]
    own = sum(rates[verdict.column] for verdict in verdicts)
    waits_for, make = ("it", "it makes") if len(verdicts) == 1 else ("them", "they make")
    sentence = (
        f"{slower_than_peers(subjects, verdicts, measured)}. Nobody waits for {waits_for}: {make} {step_rate(own)} of "
        f"{step_rate(sum(rates))}, and {what_is_lost(measured)}."
    )
    names, reported = together(subjects, verdicts), []
    for verdict, figures, evidence in zip(verdicts, measured, evidence_of(subjects, verdicts, measured), strict=True):
        name, severity = subjects[verdict.column], severity_of(figures.slowdown)
        evidence["rate"] = rates[verdict.column]
        diagnosis = Diagnosis(
            "straggler", name, verdict.begin, None, severity, sentence, evidence=evidence, together=names
        )
        reported.append(ReportedStraggler(diagnosis, figures))
    return reported
