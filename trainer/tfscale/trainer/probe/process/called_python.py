"""Python that graphs call: generators and functions of the input, which stand still while its stores are full."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

_SECONDS, _MOST_SECONDS = 10.0, 60.0
"""Bounds of the time over which a step's share is measured: two workers are compared over 10 s, and a minute is as long
as agents keep frames."""
_CALLS = 20
"""Least calls of a measured stretch, within these bounds: a partial first and last call move it by a tenth, at most."""
_STEP = 0.05
"""Relative step in which the seconds are reported. Smaller steps would change the status each second, to be sent and
read anew; with 0.1 two equal inputs could differ by a whole step."""
_NOT_OF_THE_PROGRAM = ("MainThread", "Dummy-", "tfscale-")
"""First words of the names of threads that load no data. TensorFlow's own threads have no name in Python (`Dummy-`)."""
_DISTRIBUTION = "tensorflow.python.distribute."
"""Begin of the modules whose threads look after other workers: their health, their preemption."""


class _Read(NamedTuple):
    """Calls and steps up to one time."""

    at: float
    calls: int
    seconds: float
    steps: int

    def is_far_enough(self, newest: _Read) -> bool:
        """Decide whether the time from this read to the newest is long enough to be measured alone."""
        seconds = newest.at - self.at
        return seconds >= _MOST_SECONDS or (seconds >= _SECONDS and newest.calls - self.calls >= _CALLS)


class CalledPython:
    """Clock of all calls from graphs into Python, also of calls that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls, self._seconds = 0, 0.0
        """Calls that are over, and how long they took together."""
        self._begun: dict[int, float] = {}
        """Begin of each call that is under way, by thread."""
        self._reads: deque[_Read] = deque()
        """Reads with new steps of the newest minute, or of a shorter time that is long enough."""

    def timed(self, call: Callable[[], Any]) -> Any:
        """Make a call, and return its result; the time of an inner call counts within the outer call."""
        thread = threading.get_ident()
        if thread in self._begun:
            return call()
        self._begun[thread] = time.monotonic()
        try:
            return call()
        finally:
            with self._lock:
                self._calls += 1
                self._seconds += time.monotonic() - self._begun.pop(thread)

    def per_step(self, steps: int) -> float | None:
        """Return the seconds of calls for each step, over the newest seconds; `steps` have been made up to now.

        None for too few calls, and where a store of the program's own may hide the time of its input.
        """
        now = time.monotonic()
        with self._lock:
            seconds = self._seconds + sum(now - begin for begin in list(self._begun.values()))
            newest = _Read(now, self._calls, seconds, steps)
        if not steps:
            return None
        # While no step is made, as in an evaluation or at the end, the input makes what is not used.
        if not self._reads or steps > self._reads[-1].steps:
            self._reads.append(newest)
        while len(self._reads) > 2 and self._reads[1].is_far_enough(self._reads[-1]):
            self._reads.popleft()
        oldest, newest = self._reads[0], self._reads[-1]
        if newest.steps == oldest.steps or _has_own_workers():
            return None
        return _rounded((newest.seconds - oldest.seconds) / (newest.steps - oldest.steps))


def _rounded(seconds: float) -> float:
    """Return a power of 1 + _STEP near the number, or 0 below a microsecond."""
    return 0.0 if seconds < 1e-6 else (1 + _STEP) ** round(math.log(seconds, 1 + _STEP))


def _loads_no_data(thread: threading.Thread) -> bool:
    """Decide whether a thread is TensorFlow's own, by its name and by the function that it runs."""
    module = getattr(getattr(thread, "_target", None), "__module__", None) or ""
    return thread.name.startswith(_NOT_OF_THE_PROGRAM) or module.startswith(_DISTRIBUTION)


def _has_own_workers() -> bool:
    """Decide whether the program has threads or processes that may make batches beside the calls."""
    if not all(map(_loads_no_data, threading.enumerate())):
        return True
    processes = sys.modules.get("multiprocessing")
    return processes is not None and bool(processes.active_children())
