"""Delay of one phase of a training step: parsed from a command line, and due after a time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

PHASES = ("input", "host", "compute", "update")
_NUMBER = r"(\d+\.?\d*|\.\d+)"
_MOST_SECONDS = 3600
_MOST_FACTOR = 1000


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay of `60ms` or `1.3x` in a phase, which begins `start` seconds after the first step."""

    phase: str = "compute"
    seconds: float = 0.0
    factor: float = 1.0
    """Factor of the worker's own time from batch to gradients; only in compute."""
    start: float = 0.0
    replica: int | None = None
    """Index within the process of the replica that computes slowly; None stands for all."""

    @classmethod
    def parse(cls, text: str) -> Delay:
        """Read `60ms|1.3x[,PHASE][@30s]`. Raises ValueError about a fault."""
        match = re.fullmatch(rf"(?:{_NUMBER}(ms|s)|{_NUMBER}x)(?:,(\w+))?(?:@{_NUMBER}s)?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a delay: write 60ms or 1.3x, then ,PHASE and @30s if you like")
        amount, unit, factor, phase, start = match.groups()
        phase = phase or "compute"
        if phase not in PHASES:
            raise ValueError(f"{phase!r} is not a phase that can be delayed: use one of {', '.join(PHASES)}")
        if factor and phase != "compute":
            raise ValueError(f"{text!r}: a factor is of the time to compute, so its phase can only be compute")
        if factor and float(factor) < 1:
            raise ValueError(f"{text!r}: a factor below 1 would need a faster machine")
        seconds = float(amount) * (0.001 if unit == "ms" else 1.0) if amount else 0.0
        if seconds > _MOST_SECONDS or float(factor or 1.0) > _MOST_FACTOR:
            raise ValueError(f"{text!r}: a step can be delayed by at most an hour, or {_MOST_FACTOR}x")
        return cls(phase, seconds, float(factor or 1.0), float(start or 0.0))


class DueDelay:
    """The delay of one task, due in its phase from `start` seconds after the first step on."""

    def __init__(self, delay: Delay) -> None:
        self._delay = delay
        self._first: float | None = None

    def __call__(self, phase: str) -> Delay | None:
        """Return the delay if it is due in this phase now, else None."""
        if self._first is None:
            # The first step has begun when something computes.
            if phase != "compute":
                return None
            self._first = time.monotonic()
        has_begun = time.monotonic() - self._first >= self._delay.start
        return self._delay if phase == self._delay.phase and has_begun else None
