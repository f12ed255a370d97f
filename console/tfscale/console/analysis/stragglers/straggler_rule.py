"""The straggler rule: decides which subject is slower than its peers, persistently, beyond chance, and worth a repair.

r_w(s) is the lag of worker w in step s over the median lag of the others. A worker straggles when, over a window,
  - the middle of r is at least 1.07; among two or three workers 1.07 to 1.15, by their noise,
  - 9 of 10 tenths of the window show it (a shorter burst of host noise does not),
  - its newest blocks do not show that it is over,
  - it has lasted twice as long as any similar slowness that passed by itself,
  - it is twice as slow, or beyond what the noise of this cluster does by chance (module noise),
  - it exceeds its peers by at least 3 % of the step.
Where noise hides a small slowdown in one window, the same rule tries windows up to 8 times as long.
docs/how-it-works/diagnosis.md has the measurements behind the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.steps.noise import difference, margin, spells, standard_error

LENGTHS = (10, 15, 20, 30, 40, 60, 80, 120, 160)
"""Lengths of the tried windows, in blocks; fewer than 20 only where a block of one step takes longer."""
FEW = 3
"""Workers up to which one noisy host is half or all of the data behind the usual lag."""
MOST_PATIENCE = 4
"""Windows after which a slowdown is no burst of noise, whatever bursts came before. With less a long burst of
another tenant names its worker, with more a real straggler among noisy hosts is named later."""
NEWEST = 6
"""Newest blocks that must not contradict a slowdown: 1.5 s, 3 s among few, or 6 steps. Fewer would end a straggler
at a peer's burst of a second or two, more would keep a name after the slowdown."""
_DROP = 4.0
"""Standard errors by which a straggler's level must have dropped to end before a whole window shows it: by chance
once in 30,000 evaluations. With less noise would end it, with more it outlives its slowdown."""
_SETTLED, _SETTLED_OF_TWO = 60.0, 120.0
"""Seconds of history that show how far noise wanders, of many and of two subjects. Noise of real hosts lasts for 10
s, and more subjects show more of it in the same time; with less such noise gets a name, with more a straggler is
named later."""
_BURSTS_AN_HOUR = 1.0
"""Bursts of noise in an hour, of all subjects together, that may outlast the limit of a slowness: an operator can
bear one wrong name in an hour, and hardly more."""
_EXPOSED = 120.0
"""Seconds, summed over the subjects, in which bursts of noise would have been seen: bursts of other tenants in
scripts/bench/detectors take a host once in 100 s. With less they would get a name, with more names come later."""
_UNEXPOSED_PATIENCE = 10.0
"""Seconds that a slowness must last before noise is known: such bursts last for some, and more would delay every
name."""
_CLEAR = 2.0
"""Factor over the others' noise from which on slowness is no part of the noise: with 1 the largest of many normal
values would be named."""
_USUAL = 80
"""Most blocks before the drop from which a straggler's level and noise are estimated: more would mix in an earlier
level, fewer make the estimate noise."""
_SUSPECT_LENGTHS = (10, 20, 40, 80, 160)
"""Lengths of the windows over which a subject may look slow, in blocks."""
_SUSPECT_SECONDS = 3.0
"""Seconds for which a suspect has looked slow: shorter bursts come every minute, and a name just before the
diagnosis would be of little use."""
_SUSPECT_CHANCE = 2e-4
"""Probability of a suspect in one evaluation of a cluster with the estimated noise, 4 times that of a name. With
1e-3 noise that drifts showed one in one of four starts, now in one of thirty (scripts/bench/detectors/suspects.py)."""
_SUSPECT_HISTORY = 20.0
"""Seconds of history without which no subject below twice the time is a suspect (the same measurement)."""
_ENOUGH_TO_DIFFER = 5
"""Other workers from which on they show whether the cluster has several kinds of hardware: two pairs and one more;
among fewer each may be its own kind."""
POOL = 48
"""Most other workers from which the noise of a cluster is estimated: more change no digit of it, and take time."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of the rule; docs/how-it-works/diagnosis.md gives their sources."""

    seconds: float = 5.0
    """Length of the window, which has 20 steps at least."""
    few_seconds: float = 10.0
    """Length of the window for few workers: a noisy host among them has to be outlasted. On two cores a type checker
    made one of two equal programs 1.10 times as slow for 10 s."""
    on: float = 1.07
    """The r from which on a worker straggles: below the 1.10 of Greyhound/Falcon, as the other conditions guard it.
    A threshold of 1.05 names the same workers in the published traces (tests: test_published_traces)."""
    few_on: float = 1.15
    """Highest threshold for few workers, where it rises with the noise: with equal programs beside them for minutes,
    programs were 1.11 and 1.14 times as slow as an equal one, but unevenly."""
    off: float = 1.04
    """The r below which a straggler ends: noise between `off` and `on` must not end it and begin it again, and a
    lower value would keep it named for less than it costs."""
    gain_on: float = 0.03
    """Share of the step by which the worker exceeds its peers, from which on a repair is worth it: a smaller excess
    lies within the differences of runs, and nobody replaces a host for it."""
    gain_off: float = 0.02
    """Share of the step below which a straggler ends: below `gain_on`, so that noise at the limit ends nothing."""
    persistence: float = 0.9
    """Share of the window's tenths that must show half of the slowdown: a burst shorter than the window does not."""
    chance: float = 5e-5
    """Probability of naming any worker wrongly in one evaluation of a cluster with the estimated noise.

    There is one evaluation a second: at the customary 0.1 % equal workers would be named every few hours. Where a step
    is longer than a block need be, there are fewer independent evaluations, and the chance is as many times larger.
    With it 10 simulated hours of equal workers give no false name (scripts/bench/stragglers.py --equal 10).
    """
    certain: float = 2.0
    """The r that noise is never assumed to reach over a whole window (DLRover's threshold).

    The first window shows too little of the noise to bound it: after a neighbour came and went once, a worker at 6x
    stayed unnamed for eight seconds.
    """

    def window(self, subjects: int) -> float:
        """Return the seconds of a window for `subjects` subjects."""
        return self.few_seconds if subjects <= FEW else self.seconds

    def threshold(self, subjects: int, noise: float) -> float:
        """Return the least r of a straggler.

        With few subjects it rises with `noise`, the standard deviation of log r from block to block.
        """
        return min(self.few_on, self.on + noise) if subjects <= FEW else self.on


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision that a subject straggles, by one window of blocks."""

    column: int
    length: int
    """Blocks of the window."""
    ratio: float
    """The r of the window, which decides; reported ratios are measured over steps (module straggler_figures)."""
    begin: float
    """Unix seconds of the onset; reported numbers are measured over the steps since the onset."""
    before: float | None = None
    """Seconds of a step before the onset; None without a step before it."""
    in_part: bool = False
    """True where it is slow in a part of its steps: the mean of its blocks decides, which medians hide."""
    began_earlier: bool = False
    """True where the subject is slow from the first block on, after earlier steps that are not known."""


class Suspect(NamedTuple):
    """Subject that looks slow, without enough evidence to name it."""

    subject: str
    begin: float
    """Unix seconds since which it looks slow."""


class ShortHistory(NamedTuple):
    """A history that is too short for the rule to name anybody."""

    seconds: float
    steps: int | None
    """Steps in the history, where steps are missing; None where time is."""


def short_history(blocks: Blocks | None) -> ShortHistory | None:
    """Return the history of the compared subjects, None where it is long enough for a first window."""
    if blocks is None or not len(blocks):
        return ShortHistory(0.0, None)
    if len(blocks) >= min(lengths(blocks)):
        return None
    seconds = float(blocks.end[-1]) - blocks.begin(0)
    return ShortHistory(seconds, len(blocks) if blocks.stretch > 1 else None)


def lengths(blocks: Blocks) -> list[int]:
    """Return the lengths of the windows that are tried where a block is as long as here."""
    return [length for length in LENGTHS if length >= WINDOW / blocks.stretch]


def judge(blocks: Blocks, rule: Rule) -> list[Verdict]:
    """Return the stragglers, each by the shortest window that shows its slowness."""
    verdicts: dict[int, Verdict] = {}
    for length in lengths(blocks):
        if length > len(blocks):
            break
        slow = _slow_columns(blocks, length, rule)
        clear = _clear_columns(blocks, slow, length, rule) if len(slow) > 1 else []
        for column in slow:
            if column not in verdicts and (verdict := _verdict(blocks, column, clear, length, rule)):
                verdicts[column] = verdict
    return list(verdicts.values())


def suspect(blocks: Blocks, rule: Rule) -> Verdict | None:
    """Return the suspect, where the evidence points to one subject but is too weak or too new to name it.

    It is slow in all but length: worth a repair, the only one, for longer than any similar slowness that passed by
    itself, and further out than the noise of this cluster often reaches.
    """
    for length in _SUSPECT_LENGTHS:
        if length > len(blocks):
            break
        column = int(np.argmax(blocks.level[-length:].mean(axis=0)))
        if (verdict := _suspicion(blocks, column, length, rule)) is not None:
            return verdict
    return None


def _suspicion(blocks: Blocks, column: int, length: int, rule: Rule) -> Verdict | None:
    """Judge the column that is slowest over `length` blocks."""
    recent = blocks.level[-length:]
    level = float(centre(recent[:, column]))
    # Most of the time nobody is: the others are looked at only then.
    if level < math.log(rule.on):
        return None
    ranked = np.sort(recent, axis=0)
    middle, noise = _middle(ranked), _noise(ranked)
    if level < max(math.log(rule.threshold(len(middle), noise)), 2 * float(np.delete(middle, column).max())):
        return None
    if gain(blocks, column, level) < rule.gain_on or not _lasts(recent[:, column], level, noise, rule):
        return None
    levels = pool(blocks.level, column, ())
    onset = change_point(levels[:, 0], level)
    lasted = len(levels) - onset
    if lasted < NEWEST or lasted <= spells(levels, 0, onset, level / 2, MOST_PATIENCE * WINDOW).longest:
        return None
    if float(blocks.end[-1]) - blocks.begin(onset) < _SUSPECT_SECONDS:
        return None
    chance = _SUSPECT_CHANCE * blocks.stretch / len(middle)
    if level < math.log(rule.certain):
        doubt = reach(blocks) * float(margin(levels, length, onset, chance)[0])
        if float(blocks.end[-1]) - blocks.begin(0) < _SUSPECT_HISTORY or level < doubt:
            return None
    return Verdict(column, length, math.exp(level), blocks.begin(onset))


def recovery(blocks: Blocks, column: int, begin: float, length: int, rule: Rule, in_part: bool = False) -> float | None:
    """Return the Unix seconds since which a straggler is as fast as its peers or not worth a repair; None while slow.

    It straggles since `begin`. A few blocks are enough where noise does not explain the drop; else `length` of them.
    """
    onset = min(int(np.searchsorted(blocks.end, begin, side="right")), len(blocks) - 1)
    levels = (blocks.mean_level if in_part else blocks.level)[onset:, column]
    middle = np.mean if in_part else centre
    for count in (*(few for few in (NEWEST, *LENGTHS) if few < length), length):
        level = float(middle(levels[-count:]))
        if level >= np.log(rule.off) and gain(blocks, column, level) >= rule.gain_off:
            continue
        before = levels[:-count][-_USUAL:]
        usual = float(middle(before)) if len(before) else level
        if count == length or (len(before) >= NEWEST and usual - level >= _DROP * _error(before, count)):
            return blocks.begin(onset + change_point(usual - levels, max(usual, rule.off - 1)))
    return None


def _error(values: Floats, count: int) -> float:
    """Return the standard error of the middle of `count` blocks with the noise of (k,) `values`."""
    return float(standard_error(values[:, None], count, 0)[0][0])


def _slow_columns(blocks: Blocks, length: int, rule: Rule) -> list[int]:
    """Return the columns that are slow throughout the newest `length` blocks."""
    recent = blocks.level[-length:]
    ranked = np.sort(recent, axis=0)
    level, noise = _middle(ranked), _noise(ranked)
    suspects = np.flatnonzero(level >= np.log(rule.threshold(recent.shape[1], noise)))
    return [int(column) for column in suspects if _lasts(recent[:, column], float(level[column]), noise, rule)]


def _noise(ranked: Floats) -> float:
    """Return the noise of the columns: half the range of the middle two thirds of blocks, as the median of all."""
    length = len(ranked)
    return float(np.median(ranked[length * 5 // 6] - ranked[length // 6])) / 2


def _lasts(recent: Floats, level: float, noise: float, rule: Rule) -> bool:
    """Decide whether a column is slow throughout rather than at times, as far as the noise of blocks permits."""
    tenths = np.array([part.mean() for part in np.array_split(recent, 10)])
    shows = tenths >= max(0.0, level / 2 - noise / np.sqrt(len(recent) / 10))
    still = float(np.median(recent[-NEWEST:])) >= max(0.0, level / 2 - noise / np.sqrt(NEWEST))
    return still and float(shows.mean()) >= rule.persistence


def _clear_columns(blocks: Blocks, slow: Sequence[int], length: int, rule: Rule) -> list[int]:
    """Return the slow columns whose slowness is beyond any noise of the other columns.

    Leaving out every slow column would leave out the largest noise.
    """
    others = _sample([column for column in range(blocks.level.shape[1]) if column not in set(slow)])
    if not others:
        return []
    chance = rule.chance * blocks.stretch / blocks.level.shape[1]
    doubt = float(margin(blocks.level[:, others], length, len(blocks) - length, chance).max())
    return [column for column in slow if float(centre(blocks.level[-length:, column])) >= _CLEAR * doubt]


def _verdict(blocks: Blocks, column: int, clear: Sequence[int], length: int, rule: Rule) -> Verdict | None:
    """Judge a column that is slow over `length` blocks; None while it may be noise or is not worth a repair.

    The `clear` columns are left out of the noise: a second straggler is no noise.
    """
    levels = pool(blocks.level, column, clear)
    level = float(centre(levels[-length:, 0]))
    if gain(blocks, column, level) < rule.gain_on:
        return None
    onset = change_point(levels[:, 0], level)
    if len(levels) - onset < patience(blocks, levels, onset, level):
        return None
    if level < math.log(rule.certain):
        chance = rule.chance * blocks.stretch / blocks.level.shape[1]
        if is_early(blocks, onset) or not _is_beyond_chance(levels, length, level, onset, chance, reach(blocks)):
            return None
    before = float(np.median(blocks.step[:onset][-WINDOW:])) if onset >= NEWEST else None
    early = onset == 0 and blocks.is_cut(column)
    return Verdict(column, length, float(np.exp(level)), blocks.begin(onset), before, began_earlier=early)


def patience(blocks: Blocks, levels: Floats, onset: int, level: float) -> float:
    """Return the blocks for which the first column must have been slow since its onset to be no burst of noise."""
    noise = spells(levels, 0, onset, level / 2, longest_burst(blocks))
    share = levels.shape[1] / blocks.level.shape[1]
    hour = 3600 / (blocks.length * blocks.stretch)
    rare = noise.as_rare(len(levels) * share, _BURSTS_AN_HOUR / hour)
    return max(min(2 * noise.longest, MOST_PATIENCE * WINDOW), min(rare, 2 * MOST_PATIENCE * WINDOW))


def longest_burst(blocks: Blocks) -> int:
    """Return the blocks from which on a slowness that is over was no burst of noise."""
    return max(LENGTHS[0], round(MOST_PATIENCE * WINDOW / blocks.stretch))


def _is_beyond_chance(levels: Floats, length: int, level: float, onset: int, chance: float, wander: float) -> bool:
    """Decide whether the first column is slower than its peers, or than its own past, by more than chance explains.

    `wander` is a factor on the reach of the noise.
    """
    doubt = wander * margin(levels, length, onset, chance)[0]
    if level >= doubt and level >= doubt + lasting_difference(levels[:, 1:], len(levels)):
        return True
    past = levels[:-length, 0][-2 * length :]
    if len(past) < length:
        return False
    return level - float(centre(past)) >= math.sqrt(1 + length / len(past)) * float(doubt)


def lasting_difference(others: Floats, count: int) -> float:
    """Return the lasting difference between the others, where they are enough to show it."""
    if others.shape[1] < _ENOUGH_TO_DIFFER:
        return 0.0
    return difference(others, float(standard_error(others, count, 0)[0].mean()))


def is_early(blocks: Blocks, onset: int) -> bool:
    """Decide whether a slowness since this block may be a burst of a kind that the short history cannot show."""
    now, subjects = float(blocks.end[-1]), min(POOL, blocks.level.shape[1])
    is_exposed = (now - blocks.begin(0)) * subjects >= _EXPOSED
    return not is_exposed and now - blocks.begin(onset) < _UNEXPOSED_PATIENCE


def reach(blocks: Blocks) -> float:
    """Return the factor by which noise may reach beyond what a history of this length shows."""
    settled = max(_SETTLED, _SETTLED_OF_TWO / (blocks.level.shape[1] - 1))
    return max(1.0, math.sqrt(settled / max(float(blocks.end[-1]) - blocks.begin(0), 1e-9)))


def centre(values: Floats) -> Floats:
    """Return (...) means of the middle three fifths over the first axis.

    Outliers move it as little as a median, and it is nearly as precise as a mean.
    """
    return _middle(np.sort(values, axis=0))


def _middle(ranked: Floats) -> Floats:
    cut = len(ranked) // 5
    return np.asarray(ranked[cut : len(ranked) - cut].mean(axis=0))


def gain(blocks: Blocks, column: int, level: float) -> float:
    """Return the time beyond the median of the peers, as a share of the step, which is the gain of a repair."""
    return float((1 - np.exp(-level)) * blocks.part(column))


def pool(levels: Floats, column: int, clear: Sequence[int]) -> Floats:
    """Return the column followed by the others from which the noise is estimated."""
    left_out = {column, *clear}
    return levels[:, [column, *_sample([other for other in range(levels.shape[1]) if other not in left_out])]]


def _sample(columns: Sequence[int]) -> Sequence[int]:
    """Return the columns, of very many an even sample."""
    return columns[:: -(-len(columns) // POOL) or 1]


def change_point(values: Floats, level: float) -> int:
    """Return the first block from which on `values` lie at `level` and no longer at 0.

    The likeliest change point is where the sum of the values above half the level, from the end on, is largest.
    """
    above = np.clip(values, -level, 2 * level) - level / 2
    return len(above) - 1 - int(np.argmax(np.cumsum(above[::-1])))


def severity_of(ratio: float) -> str:
    """Return the severity: from 2.0 critical (DLRover), from 1.33 serious (NVIDIA's score 0.75), else warning."""
    return "critical" if ratio >= 2.0 else "serious" if ratio >= 1.33 else "warning"
