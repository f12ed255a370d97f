"""Who is slower than its peers where nobody meets anybody: the workers of ParameterServerStrategy.

No collective lines their steps up. Compared is what a worker takes for a step by itself (update + input + compute, not
`host`, in which it waits for the chief's next function) with what its peers took in the same stretch of time: the
chief tells of all of them, on one clock. The rule is that of module stragglers; but nobody waits for the slow one, so
that it costs the cluster only its own share of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from tfscale.core.analysis.steps.blocks import TINY, WINDOW, Blocks
from tfscale.core.analysis.steps.phases import medians, others_median
from tfscale.core.analysis.steps.step_table import Floats
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.stragglers.straggler_rule import (
    LENGTHS,
    Names,
    Report,
    Rule,
    Verdict,
    evidence_of,
    severity_of,
    slower_than_peers,
)
from tfscale.core.analysis.words import rate
from tfscale.core.records import LAG_PHASES, PHASES, Diagnosis

OWN = (PHASES.index("update"), PHASES.index("input"), PHASES.index("compute"))


class Pace(NamedTuple):
    """The steps of one worker that are known whole, k of them in order of time."""

    end: Floats
    """(k,) Unix seconds."""
    own: Floats
    """(k,) seconds that it took by itself."""
    whole: Floats
    """(k,) seconds from the end of the step before."""
    phases: Floats
    """(4, k) seconds, in the order of LAG_PHASES."""

    @classmethod
    def of(cls, end: Floats, phases: Floats) -> Pace:
        """From (k,) ends and (5, k) phases."""
        own, whole = phases[OWN, :].sum(axis=0), phases[:-1].sum(axis=0)
        known = np.isfinite(whole)
        return cls(end[known], own[known], whole[known], phases[:-1, known])

    def within(self, begin: float, end: float) -> Pace:
        """The steps that ended after `begin`, up to `end`."""
        rows = slice(*np.searchsorted(self.end, [begin, end], side="right"))
        return Pace(self.end[rows], self.own[rows], self.whole[rows], self.phases[:, rows])


class PaceBlocks(Blocks):
    """Blocks of time: each has a step of every worker, and as many of the quick ones as they made in it."""

    def __init__(self, subjects: tuple[str, ...], window: float, begin: float) -> None:
        super().__init__(subjects, window)
        self.until = begin
        """Up to when the steps are in a block."""
        self._whole = self._series()

    @property
    def whole(self) -> Floats:
        """(N, n) median seconds from step to step."""
        return self._whole.rows

    def part(self, column: int) -> float:
        """Share of this worker's time in which it is at work: what it gains when it gets faster."""
        return float(np.median(self.lag[-WINDOW:, column]) / np.median(self.whole[-WINDOW:, column]))

    def take(self, paces: Sequence[Pace]) -> None:
        """Take in the subjects' steps after `until`, as far as all of them have told theirs."""
        horizon = min(float(pace.end[-1]) if len(pace.end) else -np.inf for pace in paces)
        while (edge := self._edge(paces, horizon)) is not None:
            self._add([pace.within(self.until, edge) for pace in paces], edge)
            self.until = edge

    def _edge(self, paces: Sequence[Pace], horizon: float) -> float | None:
        """Where the next block ends, None where it is not whole yet."""
        if self.until + self.length > horizon:
            return None
        firsts = [float(pace.end[np.searchsorted(pace.end, self.until, side="right")]) for pace in paces]
        edge = max(self.until + self.length, *firsts)
        return edge if edge <= horizon else None

    def _add(self, paces: Sequence[Pace], edge: float) -> None:
        lag = np.maximum([np.median(pace.own) for pace in paces], TINY)[None]
        whole = np.maximum([np.median(pace.whole) for pace in paces], TINY)[None]
        self._end.append(np.array([[edge]]))
        self._lag.append(lag)
        self._level.append(np.log(lag / others_median(lag)))
        self._step.append(np.median(whole, axis=1, keepdims=True))
        self._whole.append(whole)


@dataclass(slots=True)
class PaceWatch:
    """Remembers the paces of workers, and says who straggles among them."""

    rule: Rule = field(default_factory=Rule)
    names: Names = field(init=False)
    """Who straggles now."""
    _blocks: PaceBlocks | None = None

    def __post_init__(self) -> None:
        self.names = Names(self.rule)

    def restart(self, subjects: set[str]) -> None:
        """These began anew or ended: what was said of them, and the history, no longer hold."""
        self.names.drop(subjects)
        if self._blocks is not None:
            self.follow(tuple(subject for subject in self._blocks.subjects if subject not in subjects))

    def follow(self, subjects: tuple[str, ...]) -> float:
        """From now on these are watched. Returns up to when their steps need not be shown again."""
        if self._blocks is not None and self._blocks.subjects != subjects:
            gone = set(self._blocks.subjects) - set(subjects)
            remain = tuple(subject for subject in self._blocks.subjects if subject not in gone)
            alike = self.rule.window(len(remain)) == self.rule.window(len(self._blocks.subjects))
            if alike and remain == subjects and len(remain) >= 2:
                self._blocks.forget(gone)
            else:
                self._blocks = None
        return self._blocks.until if self._blocks is not None else -np.inf

    def diagnose(
        self, subjects: tuple[str, ...], paces: Sequence[Pace], paces_since: Callable[[float], Sequence[Pace]]
    ) -> list[Diagnosis]:
        """The stragglers among these workers. `paces` holds at least what came after what `follow` says, in the same
        order; `paces_since(t)` returns the steps that ended after t, as far as they are kept."""
        if len(paces) >= 2 and all(len(pace.end) for pace in paces):
            if self._blocks is None:
                begin = max(float(pace.end[0]) for pace in paces)
                self._blocks = PaceBlocks(subjects, self.rule.window(len(paces)), begin)
            self._blocks.take(paces)
            if len(self._blocks) >= LENGTHS[0]:
                self.names.judge(self._blocks, lambda verdict: report(subjects, verdict, paces_since(verdict.since)))
        return self.names.diagnoses


def pace_figures(paces: Sequence[Pace], column: int) -> StragglerFigures:
    """Measure the worker in this column over the steps of all of them (n >= 2, at least one step each)."""
    own = np.array([[np.median(pace.own) for pace in paces]])
    whole = np.array([[np.median(pace.whole) for pace in paces]])
    phases = np.array([np.median(pace.phases, axis=1) for pace in paces])
    peers = [other for other in range(len(paces)) if other != column]
    extra = phases[column] - np.median(phases[peers], axis=0)
    return StragglerFigures(
        ratio=float(max(own[0, column], TINY) / max(np.median(own[0, peers]), TINY)),
        phase=PHASES[max(OWN, key=lambda phase: float(extra[phase]))],
        excess=dict(zip(LAG_PHASES, extra.tolist(), strict=True)),
        step=float(whole.max()),
        slowdown=shortfall(whole, [column]),
        measured_at=max(float(pace.end[-1]) for pace in paces),
    )


def shortfall(whole: Floats, culprits: Sequence[int]) -> float:
    """The steps of all over what they would be with the culprits (columns of (N, n) seconds from step to step) at the
    middle pace of their peers; >= 1."""
    made = 1 / medians(whole)
    peers = [column for column in range(len(made)) if column not in culprits]
    if not culprits or not peers:
        return 1.0
    ideal = made.copy()
    ideal[list(culprits)] = np.maximum(made[list(culprits)], np.median(made[peers]))
    return float(ideal.sum() / made.sum())


def report(subjects: tuple[str, ...], verdict: Verdict, paces: Sequence[Pace]) -> Report | None:
    """Measure a straggler over these steps and describe it; None where somebody has none."""
    if not all(len(pace.end) for pace in paces):
        return None
    figures = pace_figures(paces, verdict.column)
    rates = [1 / float(np.median(pace.whole)) for pace in paces]
    sentence = (
        f"{slower_than_peers(subjects, verdict, figures)}; nobody waits for it, and its own "
        f"{rate(rates[verdict.column])} of {rate(sum(rates))} cost the cluster {figures.cost:.0%} of its throughput"
    )
    subject, severity = subjects[verdict.column], severity_of(figures.slowdown)
    evidence = {**evidence_of(figures), "rate": rates[verdict.column]}
    return Diagnosis("straggler", subject, verdict.begin, None, severity, sentence, evidence), figures
