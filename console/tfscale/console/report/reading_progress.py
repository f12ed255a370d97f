"""Progress of reading a long recording, on stderr: nobody waits for minutes without a word."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tfscale.core.text import duration

_FIRST, _EACH = 2.0, 5.0
"""Seconds after which the first line comes, and between two lines: a short recording has none, and a reader of a
long one never waits for longer without a word."""


@dataclass(slots=True)
class ReadingProgress:
    """Lines about how much of a file was read, and how long the rest takes."""

    path: Path
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _begin: float = field(init=False)
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        self._begin = self.clock()
        self._due = self._begin + _FIRST

    def show(self, share: float) -> None:
        """Take in that this share of the file, 0 to 1, has been read."""
        now = self.clock()
        if now < self._due:
            return
        self._due = now + _EACH
        left = (now - self._begin) * (1 / max(share, 1e-6) - 1)
        if left < _FIRST:
            return
        remaining = f", {duration(left)} left" if share > 0.01 else ""
        print(f"tfscale-console: {self.path}: {share:.0%} read{remaining}", file=self.out, flush=True)
