"""Clock of this host for the events of live agents and simulations."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Clock of this host, Unix seconds, that never goes back, so that events are in the order of their times.

    Where the host's clock is set back, this one follows the monotonic clock until the host's has caught up.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._last, self._at = wall(), steady()

    def __call__(self) -> float:
        at = self._steady()
        self._last, self._at = max(self._wall(), self._last + at - self._at), at
        return self._last
