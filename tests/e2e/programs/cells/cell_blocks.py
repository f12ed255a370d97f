"""Delays by step, and the lines that tell the process which started the program when each block ran."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.trainer.slow.delay import Delay

DELAY = 0.020
"""Seconds of the delay, in one phase at a time."""
WARM_UP, GAP, BLOCK = 16, 8, 16
"""Steps before the first block, at each block's begin that are ignored, and those that count. Multiples of 8."""


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


class Blocks:
    """The blocks of one loop: the steps of each are delayed in one phase, or in none.

    Args:
        names: the blocks in their order: phases, `none`, `replica` (replica 1 computes slowly), `wire`.
        delayed: whether this process is the one to be delayed.
        factors: by how much more, or less, to delay what the program passes less, or more, often than once a step.
    """

    def __init__(self, loop: str, names: Sequence[str], delayed: bool, factors: Mapping[str, float]) -> None:
        self.steps = WARM_UP + len(names) * (GAP + BLOCK)
        self._loop, self._names, self._delayed, self._factors = loop, names, delayed, factors
        self._step = 0
        self._now: str | None = None
        self._begin = 0.0

    def due(self, phase: str) -> Delay | None:
        """Return the delay that is due now, as `Delays` asks for it."""
        replica = 1 if self._now == "replica" else None
        if not self._delayed or phase != ("compute" if replica else self._now):
            return None
        return Delay(phase, DELAY * self._factors.get(self._now or "", 1.0), replica=replica)

    def advance(self, steps: int = 1) -> None:
        """Count steps; called before each step, or before each execution of several."""
        block, within = divmod(self._step - WARM_UP, GAP + BLOCK)
        self._step += steps
        if within == 0:
            self._enter(block)
        if within == GAP:
            self._begin = time.time()

    def _enter(self, block: int) -> None:
        before = self._now
        if 0 < block <= len(self._names):
            say(loop=self._loop, block=self._names[block - 1], begin=self._begin, end=time.time())
        self._now = self._names[block] if 0 <= block < len(self._names) else None
        if self._delayed and "wire" in (before, self._now):
            # The parent owns the link; the others wait in their next reduction meanwhile.
            say(loop=self._loop, link="slow" if self._now == "wire" else "free")
            sys.stdin.readline()

    def finish(self) -> None:
        """End the last block; called after the last step."""
        self.advance(0)
