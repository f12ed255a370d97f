"""Who is slower than its peers, persistently, beyond chance, and worth a repair.

r_w(s) = lag_w(s) / median of the other workers' lag. A worker is named when, over a window,
  - the middle of r is at least 1.07, among two or three 1.07 to 1.15 by their noise,
  - 9 of 10 tenths of the window show it (a burst of host noise that is shorter does not),
  - it has lasted twice as long as anything alike that has passed by itself,
  - it is twice as slow, or beyond what the noise of this cluster does by chance (module noise),
  - it exceeds its peers by at least 3 % of the step.
Where noise hides a small slowdown in the window, the same rule asks windows up to 8 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from tfscale.core.analysis.steps.blocks import WINDOW, Blocks
from tfscale.core.analysis.steps.step_table import Aligned, Floats
from tfscale.core.analysis.stragglers.imbalance import ImbalanceWatch
from tfscale.core.analysis.stragglers.noise import longest_spell, margin
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures, straggler_figures
from tfscale.core.analysis.words import clock, duration
from tfscale.core.records import Diagnosis

LENGTHS = (10, 15, 20, 30, 40, 60, 80, 120, 160)
"""Of the windows that are tried, in blocks; fewer than 20 only where steps are so slow that they last long enough."""
FEW = 3
"""Workers up to which one noisy host is half or all of what says what is normal."""
MOST_PATIENCE = 4
"""Windows after which a slowdown is no burst of noise, whatever was seen before."""
POOL = 48
"""Other workers, at most, from whom a cluster's noise is read."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of the rule; docs/diagnosis.md says where they come from."""

    seconds: float = 5.0
    """Length of the window, which has 20 steps at least."""
    few_seconds: float = 10.0
    """For few workers, where noise has to be outlasted."""
    on: float = 1.07
    few_on: float = 1.15
    """For few workers the threshold rises with the noise, up to this: programs that ran beside equal workers for
    minutes made 1.11 and 1.14 of one, but not evenly."""
    off: float = 1.04
    gain_on: float = 0.03
    gain_off: float = 0.02
    """Of the step, by which the worker exceeds its peers."""
    persistence: float = 0.9
    """Share of the window's tenths that must show half of the slowdown."""
    chance: float = 1.25e-5
    """Of naming anybody wrongly in one look at a cluster whose noise is as estimated. A look is taken every second: at
    the customary 0.1 % equal workers would be named every few hours. Where steps are longer than blocks need be, that
    much less happens in an hour, and the chance may be as much larger."""
    certain: float = 2.0
    """The r that noise is never held able to make of a whole window (DLRover's threshold). The little that a first
    window tells of noise may bound nothing: a neighbour that came and went once left 6x unnamed for eight seconds."""

    def window(self, subjects: int) -> float:
        """Seconds."""
        return self.few_seconds if subjects <= FEW else self.seconds

    def threshold(self, subjects: int, noise: float) -> float:
        """The r from which on somebody is named, where the log of r in a block has this standard deviation."""
        return min(self.few_on, self.on + noise) if subjects <= FEW else self.on


@dataclass(frozen=True, slots=True)
class Verdict:
    """A subject that straggles, by the window that showed it."""

    column: int
    length: int
    """Blocks of the window."""
    ratio: float
    """The r of the rule: it decides, and is not reported."""
    begin: float
    """Unix seconds of the onset."""
    since: float
    """Unix seconds at which the window begins: what is reported is measured over the steps after it."""


def judge(blocks: Blocks, rule: Rule) -> list[Verdict]:
    """Those who straggle, by the shortest window that shows it."""
    named: dict[int, Verdict] = {}
    for length in LENGTHS:
        if not WINDOW / blocks.stretch <= length <= len(blocks):
            continue
        for column in _slow(blocks, length, rule):
            if column not in named and (verdict := _verdict(blocks, column, length, rule)):
                named[column] = verdict
    return list(named.values())


def persists(blocks: Blocks, column: int, length: int, rule: Rule) -> bool:
    """Whether somebody named over a window of this length is still slower than its peers, and worth a repair."""
    level = float(centre(blocks.level[-length:, column]))
    return level >= np.log(rule.off) and _excess(blocks, column, level) >= rule.gain_off


def _slow(blocks: Blocks, length: int, rule: Rule) -> list[int]:
    """Columns that are slow throughout the newest `length` blocks."""
    recent = blocks.level[-length:]
    ranked = np.sort(recent, axis=0)
    noise = float(np.median(ranked[length * 5 // 6] - ranked[length // 6])) / 2
    level = _middle(ranked)
    suspects = np.flatnonzero(level >= np.log(rule.threshold(recent.shape[1], noise)))
    return [int(column) for column in suspects if _lasts(recent[:, column], float(level[column]), noise, rule)]


def _lasts(recent: Floats, level: float, noise: float, rule: Rule) -> bool:
    """Whether a column is slow throughout rather than now and then, as far as the noise of blocks lets one see."""
    tenths = np.array([part.mean() for part in np.array_split(recent, 10)])
    seen = tenths >= max(0.0, level / 2 - noise / np.sqrt(len(recent) / 10))
    return float(seen.mean()) >= rule.persistence


def _verdict(blocks: Blocks, column: int, length: int, rule: Rule) -> Verdict | None:
    """What is slow over `length` blocks as a straggler, None while it may be noise or is worth nothing."""
    levels = _pool(blocks.level, column)
    level = float(centre(levels[-length:, 0]))
    if _excess(blocks, column, level) < rule.gain_on:
        return None
    onset = change_point(levels[:, 0], level)
    spell = longest_spell(levels, 0, onset, level / 2, MOST_PATIENCE * WINDOW)
    if len(levels) - onset < min(2 * spell, MOST_PATIENCE * WINDOW):
        return None
    chance = rule.chance * blocks.stretch / blocks.level.shape[1]
    if level < math.log(rule.certain) and not _is_beyond_chance(levels, length, level, onset, chance):
        return None
    return Verdict(column, length, float(np.exp(level)), blocks.begin(onset), blocks.begin(len(blocks) - length))


def _is_beyond_chance(levels: Floats, length: int, level: float, onset: int, chance: float) -> bool:
    """Whether the first column is slower than its peers, or than it was itself, by more than noise makes of anybody."""
    doubt = margin(levels, length, onset, chance)[0]
    if level >= doubt:
        return True
    past = levels[:-length, 0][-2 * length :]
    if len(past) < length:
        return False
    return level - float(centre(past)) >= math.sqrt(1 + length / len(past)) * float(doubt)


def centre(values: Floats) -> Floats:
    """(...) means of the middle three fifths over the first axis: as deaf to outliers as a median here, and as sharp as
    a mean."""
    return _middle(np.sort(values, axis=0))


def _middle(ranked: Floats) -> Floats:
    cut = len(ranked) // 5
    return np.asarray(ranked[cut : len(ranked) - cut].mean(axis=0))


def _excess(blocks: Blocks, column: int, level: float) -> float:
    """What the worker takes beyond its peers' median, as a share of the step."""
    return float((1 - np.exp(-level)) * blocks.part(column))


def _pool(levels: Floats, column: int) -> Floats:
    """The column, and others with which its noise is read: of very many, an even sample."""
    others = [other for other in range(levels.shape[1]) if other != column]
    return levels[:, [column, *others[:: -(-len(others) // POOL)]]]


def change_point(values: Floats, level: float) -> int:
    """The block from which on `values` lie at `level` and no longer at 0: the likeliest change point, which is where
    the sum of what lies above half of the level, counted from the end, is largest."""
    above = np.clip(values, -level, 2 * level) - level / 2
    return len(above) - 1 - int(np.argmax(np.cumsum(above[::-1])))


Report = tuple[Diagnosis, StragglerFigures]
"""A straggler's diagnosis, and the figures that every number of it is from."""


@dataclass(frozen=True, slots=True)
class NamedStraggler:
    """A straggler as it was reported last."""

    length: int
    """Blocks of the window that named it first: it ends by the same window."""
    ratio: float
    """The r that decided; a new one is news only where it differs clearly."""
    diagnosis: Diagnosis
    figures: StragglerFigures


@dataclass(slots=True)
class Names:
    """Adds hysteresis: whoever was named stays so until clearly no slower, and is told anew only when it matters."""

    rule: Rule
    _named: dict[str, NamedStraggler] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """What holds of them."""
        return [named.diagnosis for named in self._named.values()]

    @property
    def figures(self) -> dict[str, StragglerFigures]:
        """The figures of each diagnosis, by subject."""
        return {subject: named.figures for subject, named in self._named.items()}

    def drop(self, subjects: set[str]) -> None:
        """What was said of these no longer holds."""
        self._named = {name: entry for name, entry in self._named.items() if name not in subjects}

    def judge(self, blocks: Blocks, report: Callable[[Verdict], Report | None]) -> None:
        """Judge the blocks, and `report` what is news; None: it cannot be measured.

        A new straggler is not named while the steps of the window contradict the blocks: blocks and work that moves
        from worker to worker can keep the same beat.
        """
        self._end_recovered(blocks)
        for verdict in judge(blocks, self.rule):
            subject = blocks.subjects[verdict.column]
            before = self._named.get(subject)
            if before is not None and abs(verdict.ratio / before.ratio - 1) <= 0.1:
                continue
            reported = report(verdict)
            if reported is not None and (before or reported[1].ratio >= self.rule.off):
                length = before.length if before else verdict.length
                self._named[subject] = NamedStraggler(length, verdict.ratio, *reported)

    def _end_recovered(self, blocks: Blocks) -> None:
        for subject, named in list(self._named.items()):
            known = subject in blocks.subjects
            if known and not persists(blocks, blocks.subjects.index(subject), named.length, self.rule):
                del self._named[subject]


@dataclass(slots=True)
class StragglerWatch:
    """Remembers the steps of those who meet in a collective, and says who straggles among them."""

    rule: Rule = field(default_factory=Rule)
    names: Names = field(init=False)
    """Who straggles now."""
    _blocks: Blocks | None = None
    _imbalance: ImbalanceWatch = field(default_factory=ImbalanceWatch)

    def __post_init__(self) -> None:
        self.names = Names(self.rule)

    def restart(self, subjects: set[str]) -> None:
        """A new attempt of these began, or they ended: what was said of them, and the history, no longer hold."""
        self.names.drop(subjects)
        self._blocks, self._imbalance.diagnosis = None, None

    def follow(self, subjects: tuple[str, ...]) -> int:
        """From now on these are watched. Returns the newest collective of theirs that need not be shown again; -1 where
        all that is kept is news."""
        blocks = self._blocks
        if blocks is not None and blocks.subjects != subjects:
            gone = set(blocks.subjects) - set(subjects)
            remain = tuple(subject for subject in blocks.subjects if subject not in gone)
            alike = self.rule.window(len(remain)) == self.rule.window(len(blocks.subjects))
            if alike and remain == subjects and len(remain) >= 2:
                blocks.forget(gone)
            else:
                self._blocks = None
        return self._blocks.consumed if self._blocks is not None else -1

    def diagnose(self, aligned: Aligned, steps_since: Callable[[float], Aligned] | None = None) -> list[Diagnosis]:
        """The stragglers among subjects that do equal work, else an imbalance that cannot be pinned on anybody.

        `aligned` holds at least what came after what `follow` says; `steps_since(t)` returns the steps that ended after
        t, as far as they are kept (default: those of `aligned`).
        """
        subjects = aligned.subjects
        self.follow(subjects)
        if len(subjects) >= 2:
            if self._blocks is None:
                self._blocks = Blocks(subjects, self.rule.window(len(subjects)))
            self._blocks.fold(aligned)
            if len(self._blocks) >= LENGTHS[0]:
                self._judge(self._blocks, steps_since or aligned.since)
        held = self.names.diagnoses
        return [*held, self._imbalance.diagnosis] if self._imbalance.diagnosis else held

    def _judge(self, blocks: Blocks, steps_since: Callable[[float], Aligned]) -> None:
        self.names.judge(blocks, lambda verdict: report(blocks.subjects, verdict, steps_since(verdict.since)))
        if self.names:
            self._imbalance.diagnosis = None
        else:
            self._imbalance.judge(blocks, steps_since)


def severity_of(ratio: float) -> str:
    """1.10 warning, 1.33 (NVIDIA's score 0.75) serious, 2.0 (DLRover) critical."""
    return "critical" if ratio >= 2.0 else "serious" if ratio >= 1.33 else "warning"


def report(subjects: tuple[str, ...], verdict: Verdict, steps: Aligned) -> Report | None:
    """Measure a straggler over these steps and describe it; None where there are none."""
    if not len(steps):
        return None
    figures = straggler_figures(steps, verdict.column)
    sentence = (
        f"{slower_than_peers(subjects, verdict, figures)}; it costs the cluster {figures.cost:.0%} of its throughput"
    )
    subject, severity = subjects[verdict.column], severity_of(figures.ratio)
    return Diagnosis("straggler", subject, verdict.begin, None, severity, sentence, evidence_of(figures)), figures


def slower_than_peers(subjects: tuple[str, ...], verdict: Verdict, figures: StragglerFigures) -> str:
    """Return the first half of a straggler's sentence: who, how much, since when and in which phase."""
    peers = "its peers" if len(subjects) > 2 else subjects[1 - verdict.column]
    return (
        f"{subjects[verdict.column]} is {figures.ratio:.2g}x slower than {peers} since {clock(verdict.begin)}, in "
        f"{figures.phase} (+{duration(figures.excess[figures.phase])} a step)"
    )


def evidence_of(figures: StragglerFigures) -> dict[str, float | str | None]:
    """Return a straggler's figures under the keys of the export."""
    return {
        "ratio": figures.ratio,
        "phase": figures.phase,
        "excess": figures.excess[figures.phase],
        "slowdown": figures.slowdown,
        "noticed": figures.measured_at,
    }
