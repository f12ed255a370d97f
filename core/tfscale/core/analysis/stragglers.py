"""Who is slower than its peers, persistently, beyond chance, and worth a repair.

r_w(s) = lag_w(s) / median of the other workers' lag. A worker is named when, over a window,
  - the median of r is at least 1.10 [Greyhound, Falcon],
  - 9 of 10 tenths of the window show it (a burst of host noise that is shorter does not),
  - it is beyond what the noise of this cluster does by chance (module noise),
  - bringing it to its peers' pace gains at least 3 % of the step.
Where noise hides a small slowdown in the window, the same rule asks windows 2, 4 and 8 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tfscale.core.analysis.noise import quantile, wander
from tfscale.core.analysis.phases import excess, others_median, relative, slowdown, transfer
from tfscale.core.analysis.steps import Aligned, Floats
from tfscale.core.analysis.summary import window_rows
from tfscale.core.analysis.words import clock, duration
from tfscale.core.records import LAG_PHASES, Diagnosis
from tfscale.core.task import CLUSTER


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of the rule; docs/diagnosis.md says where they come from."""

    seconds: float = 5.0
    """Length of the window for three or more workers."""
    pair_seconds: float = 10.0
    """For two: there is no majority that says what is normal, so that noise has to be outlasted instead."""
    steps: int = 20
    """The window has this many steps at least."""
    on: float = 1.10
    off: float = 1.05
    gain_on: float = 0.03
    gain_off: float = 0.02
    """Of the step, what a repair would save."""
    persistence: float = 0.9
    """Share of the window's tenths that must show at least half of the slowdown."""
    chance: float = 1e-5
    """Of naming anybody wrongly in one look at a cluster whose noise is as estimated. A look is taken every second,
    so that the customary 0.1 % would give a false name every few hours."""
    imbalance_on: float = 0.15
    imbalance_off: float = 0.10
    """Of the step, what the slowest of each step costs, whoever it is."""

    def window(self, subjects: int) -> float:
        return self.pair_seconds if subjects == 2 else self.seconds


BLOCKS = 20
"""A window is judged in this many blocks of steps."""
SCALES = (1, 2, 4, 8)
"""Lengths of the windows that are tried, in windows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A straggler: its column, the length of the window that showed it in windows, its r, when it began."""

    column: int
    scale: int
    ratio: float
    begin: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """The steps in blocks of equal count: the newest 20 are the window."""

    end: Floats
    """(N,) when each block ended."""
    lag: Floats
    """(N, n) median lags, seconds."""
    level: Floats
    """(N, n) median log of the relative lag."""
    step: float
    """Median step time of the window, seconds."""


def blocks_of(aligned: Aligned, rows: int) -> Blocks:
    """The newest steps as at most 12 windows of 20 blocks, where `rows` steps are one window."""
    size = max(1, rows // BLOCKS)
    count = min(len(aligned) // size, 12 * BLOCKS)
    kept = aligned.last(count * size)
    lag = kept.lag
    window = aligned.last(rows)
    step = float(np.median(transfer(window.reduce) + window.lag.max(axis=1)))
    return Blocks(kept.end[size - 1 :: size], _medians(lag, size), _medians(np.log(relative(lag)), size), step)


def _medians(values: Floats, size: int) -> Floats:
    """(N * size, n) values as (N, n) medians of `size` rows each; sorting the last axis is what numpy does fastest."""
    if size == 1:
        return values
    columns = np.ascontiguousarray(values.T).reshape(values.shape[1], -1, size)
    columns.sort(axis=2)
    return np.asarray((columns[:, :, (size - 1) // 2] + columns[:, :, size // 2]).T / 2)


def judge(blocks: Blocks, rule: Rule) -> list[Verdict]:
    """Those who straggle, by the shortest window that shows it."""
    named: dict[int, Verdict] = {}
    for scale in SCALES:
        if len(blocks.end) < scale * BLOCKS:
            break
        for column in _persistent(blocks, scale, rule):
            if column not in named:
                named[column] = _verdict(blocks, column, scale)
    gains = _gains(blocks, list(named))
    return [verdict for column, verdict in named.items() if gains[column] >= rule.gain_on]


def persists(blocks: Blocks, column: int, scale: int, rule: Rule) -> bool:
    """Whether somebody named over a window of this length is still slower than its peers, and worth a repair."""
    ratio = float(np.exp(np.median(blocks.level[-scale * BLOCKS :, column])))
    return ratio >= rule.off and _gains(blocks, [column])[column] >= rule.gain_off


def _persistent(blocks: Blocks, scale: int, rule: Rule) -> list[int]:
    """Columns that are slow throughout the newest `scale` windows, beyond chance."""
    recent = blocks.level[-scale * BLOCKS :]
    n = recent.shape[1]
    level = np.median(recent, axis=0)
    slow = level >= np.log(rule.on)
    if not slow.any():
        return []
    tenths = recent.reshape(10, -1, n).mean(axis=1)
    slow &= (tenths >= level / 2).mean(axis=0) >= rule.persistence
    if slow.any():
        error, freedom = wander(blocks.level, len(recent))
        slow &= level >= quantile(rule.chance / n, freedom) * error
    return [int(column) for column in np.flatnonzero(slow)]


def _verdict(blocks: Blocks, column: int, scale: int) -> Verdict:
    level = float(np.median(blocks.level[-scale * BLOCKS :, column]))
    return Verdict(column, scale, float(np.exp(level)), onset(blocks, column, level))


def onset(blocks: Blocks, column: int, level: float) -> float:
    """When a slowdown to `level` (log of r) most likely began: the change point of largest likelihood for a step from
    0 to that level, which is where the sum of what lies above half of it is largest, counted from the end."""
    above = np.clip(blocks.level[:, column], -level, 2 * level) - level / 2
    first = len(above) - 1 - int(np.argmax(np.cumsum(above[::-1])))
    return float(blocks.end[first - 1] if first else blocks.end[0] - (blocks.end[1] - blocks.end[0]))


def _gains(blocks: Blocks, named: list[int]) -> dict[int, float]:
    """What bringing each of the named to the pace of the slowest who is not named saves, as a share of the step."""
    lag = blocks.lag[-BLOCKS:]
    peers = [column for column in range(lag.shape[1]) if column not in named]
    if not peers:
        return dict.fromkeys(named, 0.0)
    slowest = lag[:, peers].max(axis=1)
    return {column: float(np.median(lag[:, column] - slowest)) / blocks.step for column in named}


@dataclass(slots=True)
class StragglerWatch:
    """Adds hysteresis: whoever was named stays so until clearly no slower, and is told anew only when it matters."""

    rule: Rule = field(default_factory=Rule)
    _named: dict[str, tuple[int, Diagnosis]] = field(default_factory=dict)
    _imbalance: Diagnosis | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Who straggles now."""
        return tuple(self._named)

    def forget(self, subjects: set[str]) -> None:
        """These restarted or ended: what was said of them no longer holds."""
        self._named = {name: entry for name, entry in self._named.items() if name not in subjects}

    def diagnose(self, aligned: Aligned) -> list[Diagnosis]:
        """The stragglers among subjects that do equal work, else an imbalance that cannot be pinned on anybody."""
        n = len(aligned.subjects)
        rows = window_rows(aligned.end, self.rule.window(n), self.rule.steps)
        if n >= 2 and self._is_full(aligned, rows):
            blocks = blocks_of(aligned, rows)
            self._end_recovered(blocks, aligned.subjects)
            self._name(blocks, aligned, rows)
            self._judge_imbalance(aligned, rows)
        held = [diagnosis for _, diagnosis in self._named.values()]
        return [*held, self._imbalance] if self._imbalance else held

    def _is_full(self, aligned: Aligned, rows: int) -> bool:
        return rows >= self.rule.steps and aligned.end[-1] - aligned.end[0] >= self.rule.window(len(aligned.subjects))

    def _end_recovered(self, blocks: Blocks, subjects: Sequence[str]) -> None:
        for subject, (scale, _) in list(self._named.items()):
            if subject in subjects and not persists(blocks, subjects.index(subject), scale, self.rule):
                del self._named[subject]

    def _name(self, blocks: Blocks, aligned: Aligned, rows: int) -> None:
        for verdict in judge(blocks, self.rule):
            subject = aligned.subjects[verdict.column]
            told = self._named.get(subject)
            if told is None or _differs(told[1], verdict):
                scale = told[0] if told else verdict.scale
                self._named[subject] = (scale, describe(verdict, aligned.last(rows * verdict.scale)))

    def _judge_imbalance(self, aligned: Aligned, rows: int) -> None:
        if self._named:
            self._imbalance = None
            return
        cost = lasting_imbalance(aligned, rows)
        if cost < (self.rule.imbalance_off if self._imbalance else self.rule.imbalance_on):
            self._imbalance = None
        elif self._imbalance is None:
            self._imbalance = _describe_imbalance(cost, aligned.last(3 * rows))


def lasting_imbalance(aligned: Aligned, rows: int) -> float:
    """Share of the step that the slowest of each step costs, whoever it is: the least of three windows in a row, so
    that a straggler is named before it is called an imbalance."""
    if len(aligned) < 3 * rows:
        return 0.0
    kept = aligned.last(3 * rows)
    lag = kept.lag
    share = excess(lag) / (lag.max(axis=1) + transfer(kept.reduce))
    return float(np.median(share.reshape(3, rows), axis=1).min())


def _differs(told: Diagnosis, verdict: Verdict) -> bool:
    """Whether the ratio has moved by more than a tenth since it was told: noise in it is not news."""
    before = told.evidence["ratio"]
    return isinstance(before, float) and abs(verdict.ratio / before - 1) > 0.1


def severity_of(ratio: float) -> str:
    """1.10 warning, 1.33 (NVIDIA's score 0.75) serious, 2.0 (DLRover) critical."""
    return "critical" if ratio >= 2.0 else "serious" if ratio >= 1.33 else "warning"


def describe(verdict: Verdict, window: Aligned) -> Diagnosis:
    """The finding in words, with the phase in which the time goes."""
    column, subject = verdict.column, window.subjects[verdict.column]
    peers = "its peers" if len(window.subjects) > 2 else window.subjects[1 - column]
    phase, extra = guilty_phase(window, column)
    slow = slowdown(window.lag, window.reduce, [column])
    sentence = (
        f"{subject} is {verdict.ratio:.2g}x slower than {peers} since {clock(verdict.begin)}, in {phase} "
        f"(+{duration(extra)} a step); it costs the cluster {1 - 1 / slow:.0%} of its throughput"
    )
    evidence: dict[str, float | str | None] = {
        "ratio": verdict.ratio,
        "phase": phase,
        "excess": extra,
        "slowdown": slow,
        "noticed": float(window.end[-1]),
    }
    return Diagnosis("straggler", subject, verdict.begin, None, severity_of(verdict.ratio), sentence, evidence)


def guilty_phase(window: Aligned, column: int) -> tuple[str, float]:
    """(phase, seconds a step) in which the subject exceeds the median of its peers most."""
    extra = [
        float(np.median(plane[:, column] - others_median(plane)[:, column]))
        for plane in window.phases[: len(LAG_PHASES)]
    ]
    most = int(np.argmax(extra))
    return LAG_PHASES[most], extra[most]


def _describe_imbalance(cost: float, window: Aligned) -> Diagnosis:
    sentence = (
        f"the slowest of each step costs the cluster {cost:.0%} of its throughput, but it is not always the same one: "
        "uneven work or noisy hosts, nobody to repair"
    )
    severity = "warning" if cost >= 0.33 else "info"
    return Diagnosis("imbalance", CLUSTER, float(window.end[0]), None, severity, sentence, {"cost": cost})
