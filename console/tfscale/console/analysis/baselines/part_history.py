"""History of one attempt: the times of the parts of a step, in blocks of a second, or of one step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from tfscale.console.analysis.baselines.baseline import LEAST_BLOCKS, part_times, usual_times
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import cut_second

NEWEST = 30
"""Newest blocks, over which a slowdown is judged and measured: with fewer a busy quarter of a minute would be one, with
more each is told later."""
KEEP = 1800
"""Older blocks that are remembered: half an hour."""
WARM_UP = 30.0
"""First seconds of an attempt that are left out, in which caches of files and memory are cold: with less their slowness
would become usual, with more a baseline comes later."""
_EVERY = 10
"""Blocks after which the usual times are computed anew."""


@dataclass(slots=True)
class PartHistory:
    """History of one attempt. Steps come in order, each once."""

    begin: float
    """Unix seconds: steps that ended before are left out."""
    newest: deque[tuple[float, float, Floats]] = field(default_factory=lambda: deque(maxlen=NEWEST))
    """(begin, end, (5,) seconds of each part) of the newest blocks."""
    past: deque[Floats] = field(default_factory=lambda: deque(maxlen=KEEP))
    """Times of the blocks before the newest: a judged time is not part of its own comparison."""
    count: int = 0
    """Blocks so far."""
    is_slow: bool = False
    """True while new times must not become usual."""
    _waiting: list[AlignedSteps] = field(default_factory=list)
    _consumed: int = -1
    """Number of the newest step that was taken in."""
    _edge: float | None = None
    """End of the last block, Unix seconds."""
    _usual: tuple[tuple[float, ...], float] | None = None
    _computed: int = 0
    """Blocks so far when the usual times were computed last."""

    def append(self, fresh: AlignedSteps, is_remembered: bool) -> bool:
        """Append steps, and return whether a block was added; without `is_remembered` their blocks are dropped."""
        fresh, before = fresh.after(self._consumed).since(self.begin), self.count
        if not len(fresh):
            return False
        self._consumed = int(fresh.sequence[-1])
        if self._waiting and self._waiting[0].subjects != fresh.subjects:
            self._waiting = []
        while len(fresh):
            if self._edge is None:
                self._edge = float(fresh.end[0])
                fresh = fresh.since(self._edge)
                continue
            if (count := cut_second(fresh.end, self._edge)) is None:
                self._waiting.append(fresh)
                break
            self._waiting.append(_until(fresh, count))
            fresh = fresh.since(float(fresh.end[count - 1]))
            self._complete(is_remembered)
        return self.count > before

    def _complete(self, is_remembered: bool) -> None:
        steps, self._waiting = self._waiting, []
        begin, end = float(self._edge or 0.0), float(steps[-1].end[-1])
        self._edge = end
        if not is_remembered:
            return
        whole = steps[0] if len(steps) == 1 else _joined(steps)
        if len(self.newest) == NEWEST and not self.is_slow:
            self.past.append(self.newest[0][2])
        self.newest.append((begin, end, part_times(whole)))
        self.count += 1

    @property
    def times(self) -> Floats:
        """(k, 5) seconds of the newest blocks."""
        return np.array([times for _, _, times in self.newest])

    @property
    def usual(self) -> tuple[tuple[float, ...], float] | None:
        """Usual times (see `usual_times`) of the past, None where the past is too short."""
        if len(self.past) < LEAST_BLOCKS:
            return None
        if self._usual is None or (self.count - self._computed >= _EVERY and not self.is_slow):
            self._usual, self._computed = usual_times(np.array(self.past)), self.count
        return self._usual

    def forget_newest(self, keep: int) -> None:
        """Leave out the newest blocks except the last few: they belong to a slowdown."""
        while len(self.newest) > keep:
            self.newest.popleft()


def _until(steps: AlignedSteps, row: int) -> AlignedSteps:
    return AlignedSteps(steps.subjects, steps.sequence[:row], steps.end[:row], steps.phases[:, :row], steps.meets)


def _joined(steps: list[AlignedSteps]) -> AlignedSteps:
    first = steps[0]
    return AlignedSteps(
        first.subjects,
        np.concatenate([each.sequence for each in steps]),
        np.concatenate([each.end for each in steps]),
        np.concatenate([each.phases for each in steps], axis=1),
        all(each.meets for each in steps),
    )
