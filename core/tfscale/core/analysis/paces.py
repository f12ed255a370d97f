"""Who is slower than its peers where nobody meets anybody: the workers of ParameterServerStrategy.

No collective lines their steps up. Compared is what a worker takes for a step by itself (update + input + compute, not
`host`, in which it waits for the chief's next function) with what its peers took in the same stretch of time: the
chief tells of all of them, on one clock. The rule is that of module stragglers; but nobody waits for the slow one, so
that it costs the cluster only its own share of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from tfscale.core.analysis.blocks import TINY, WINDOW, Blocks
from tfscale.core.analysis.phases import excess, medians, others_median
from tfscale.core.analysis.steps import Aligned, Floats
from tfscale.core.analysis.stragglers import LENGTHS, Names, Rule, Verdict, severity_of
from tfscale.core.records import PHASES, Diagnosis
from tfscale.core.text import clock, duration, step_rate

OWN = (PHASES.index("update"), PHASES.index("input"), PHASES.index("compute"))


class Pace(NamedTuple):
    """The steps of one worker that are known whole, k of them in order of time."""

    end: Floats
    """(k,) Unix seconds."""
    own: Floats
    """(k,) seconds that it took by itself."""
    whole: Floats
    """(k,) seconds from the end of the step before."""

    @classmethod
    def of(cls, end: Floats, phases: Floats) -> Pace:
        """From (k,) ends and (5, k) phases."""
        own, whole = phases[OWN, :].sum(axis=0), phases[:-1].sum(axis=0)
        known = np.isfinite(whole)
        return cls(end[known], own[known], whole[known])

    def within(self, begin: float, end: float) -> Pace:
        """The steps that ended after `begin`, up to `end`."""
        rows = slice(*np.searchsorted(self.end, [begin, end], side="right"))
        return Pace(self.end[rows], self.own[rows], self.whole[rows])


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

    def diagnose(self, paces: Sequence[Pace], window: Aligned) -> list[Diagnosis]:
        """The stragglers among the workers of `window`, their newest steps side by side; `paces` holds at least what
        came after what `follow` says, in the same order."""
        if len(paces) >= 2 and all(len(pace.end) for pace in paces):
            if self._blocks is None:
                begin = max(float(pace.end[0]) for pace in paces)
                self._blocks = PaceBlocks(window.subjects, self.rule.window(len(paces)), begin)
            self._blocks.take(paces)
            if len(self._blocks) >= LENGTHS[0]:
                whole = self._blocks.whole[-WINDOW:]
                self.names.look(self._blocks, lambda verdict: describe(verdict, window, whole))
        return self.names.diagnoses


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


def describe(verdict: Verdict, window: Aligned, whole: Floats) -> Diagnosis:
    """The finding in words, with the phase in which the time goes and what the cluster loses."""
    column, subject = verdict.column, window.subjects[verdict.column]
    peers = "its peers" if len(window.subjects) > 2 else window.subjects[1 - column]
    extra = excess(window.phases[OWN, :], column)
    phase = PHASES[OWN[int(np.argmax(extra))]]
    slow, made = shortfall(whole, [column]), 1 / medians(whole)
    sentence = (
        f"{subject} is {verdict.ratio:.2g}x slower than {peers} since {clock(verdict.begin)}, in {phase} "
        f"(+{duration(float(extra.max()))} a step); nobody waits for it, and its own {step_rate(float(made[column]))} "
        f"of {step_rate(float(made.sum()))} cost the cluster {1 - 1 / slow:.0%} of its throughput"
    )
    evidence: dict[str, float | str | None] = {
        "ratio": verdict.ratio,
        "phase": phase,
        "excess": float(extra.max()),
        "slowdown": slow,
        "rate": float(made[column]),
        "noticed": float(np.nanmax(window.end)),
    }
    return Diagnosis("straggler", subject, verdict.begin, None, severity_of(slow), sentence, evidence)
