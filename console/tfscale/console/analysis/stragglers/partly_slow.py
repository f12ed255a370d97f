"""Stragglers in a part of their steps, such as every fourth: medians of blocks hide them, means show them.

The mean ratio of a subject over a window must be 1.1; excess and patience are the straggler rule's. In place of the
tenths of the window, which such a slowness does not fill,
  - each quarter of the window shows it, so that a burst is none,
  - the subject is late in more blocks than its peers, which chance would do as seldom as the rule's (a sign test),
  - it is beyond the noise of its peers, and of its own past: its own noise of now is what is asked about.
docs/how-it-works/yardstick.md has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.steps.noise import margin
from tfscale.console.analysis.stragglers.straggler_rule import (
    FEW,
    NEWEST,
    Rule,
    Verdict,
    gain,
    is_early,
    lasting_difference,
    lengths,
    patience,
    pool,
    reach,
)

_ON = 1.1
"""Least mean ratio (TraceML, Greyhound): with 1.07 a worker that bursts of noise took four times in 40 s was named."""
_LEAST = 2 * WINDOW
"""Least blocks of a window, where a block is longer than a step: a burst of noise of 5 s does not show in all its
quarters."""
_KNOWN = 60.0
"""Seconds of history that are needed: with less, five more of 63 starts in bursty noise had a false name."""
_MOST = 4
"""Most subjects that are looked at in each window, the slowest first: more would cost time among many noisy ones."""
_TO_BE_SURE = 0.5
"""Share of the level that a change point is searched with: with all of it a stretch in which by chance few steps are
slow would count as the time before, 19 s of a slowness in a tenth of the steps."""
_PAST = 24
"""Blocks before the onset from which on they show a subject's own noise."""


def partly_slow(blocks: Blocks, rule: Rule, named: Collection[int]) -> list[Verdict]:
    """Return the stragglers in a part of their steps, except the `named` columns."""
    verdicts: dict[int, Verdict] = {}
    levels, least = blocks.mean_level, math.log(_ON)
    if len(levels) == 0 or float(blocks.end[-1]) - blocks.begin(0) < _KNOWN:
        return []
    for length in lengths(blocks):
        if max(WINDOW, _LEAST / blocks.stretch) <= length <= len(levels):
            means = levels[-length:].mean(axis=0)
            slow = [column for column in np.flatnonzero(means >= least).tolist() if column not in {*named, *verdicts}]
            for column in sorted(slow, key=lambda column: -float(means[column]))[:_MOST]:
                if (verdict := _verdict(blocks, column, length, rule)) is not None:
                    verdicts[column] = verdict
    return list(verdicts.values())


def _verdict(blocks: Blocks, column: int, length: int, rule: Rule) -> Verdict | None:
    levels = pool(blocks.mean_level, column, ())
    recent = levels[-length:, 0]
    level = float(recent.mean())
    if gain(blocks, column, level) < rule.gain_on or not _recurs(recent, level):
        return None
    # A window may hold a piece of the time before, which makes its mean too low.
    since = _onset(levels[:, 0], max(level, float(recent[length // 2 :].mean())))
    onset = _onset(levels[:, 0], _TO_BE_SURE * float(levels[since:, 0].mean()))
    if len(levels) - onset < max(rule.persistence * length, patience(blocks, levels, onset, level)):
        return None
    chance = rule.chance * blocks.stretch / len(blocks.subjects)
    if is_early(blocks, onset) or _chance_of_being_late(levels[-length:] > level) > chance:
        return None
    doubt = reach(blocks) * _doubt(levels, length, onset, chance)
    if level < doubt + lasting_difference(levels[:, 1:], len(levels)):
        return None
    return Verdict(
        column,
        length,
        math.exp(level),
        blocks.begin(onset),
        before=float(np.median(blocks.step[:onset][-WINDOW:])) if onset >= NEWEST else None,
        began_earlier=onset == 0 and blocks.is_cut(column),
        in_part=True,
    )


def _recurs(values: Floats, level: float) -> bool:
    """Decide whether each quarter shows a third of the level."""
    return min(float(part.mean()) for part in np.array_split(values, 4)) >= level / 3


def _onset(values: Floats, level: float) -> int:
    """Return the likeliest block from which on the mean is `level` and no longer 0 (Page's CUSUM)."""
    return len(values) - 1 - int(np.argmax(np.cumsum((values - level / 2)[::-1])))


def _chance_of_being_late(late: NDArray[np.bool_]) -> float:
    """Return how probably the first column is late so often, if every column were late equally often (a sign test)."""
    often, whole, share = int(late[:, 0].sum()), int(late.sum()), 1 / late.shape[1]
    if often <= share * whole:
        return 1.0
    return math.fsum(_binomial(count, whole, share) for count in range(often, min(whole, len(late)) + 1))


def _binomial(count: int, whole: int, share: float) -> float:
    ways = math.lgamma(whole + 1) - math.lgamma(count + 1) - math.lgamma(whole - count + 1)
    return math.exp(ways + count * math.log(share) + (whole - count) * math.log1p(-share))


def _doubt(levels: Floats, length: int, onset: int, chance: float) -> float:
    """Return the level that noise reaches by this chance: that of the peers, and of the first column before `onset`.

    Few peers mirror the subject; there its own noise of now counts too.
    """
    if levels.shape[1] <= FEW:
        return float(margin(levels, length, onset, chance)[0])
    peers = levels[:, 1:]
    doubt = float(np.median(margin(peers, length, len(peers) - length, chance)))
    past = float(margin(levels[:onset], length, onset, chance)[0]) if onset >= _PAST else 0.0
    return max(doubt, past)
