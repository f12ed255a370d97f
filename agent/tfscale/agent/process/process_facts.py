"""Facts about the task's process, added to what it uses."""

from __future__ import annotations

import time
from dataclasses import replace

from tfscale.agent.process.frozen_group import is_frozen
from tfscale.agent.process.sleeping_threads import SleepingThreads
from tfscale.core.records import TaskUsage

_PERIOD = 3.0
"""Seconds between two looks at the threads, of which TensorFlow has a hundred."""


class ProcessFacts:
    """Collector of what the kernel tells of a process that does not run."""

    def __init__(self) -> None:
        self._threads = SleepingThreads()
        self._blocked = ""
        self._looked = 0.0

    def add(self, usage: TaskUsage | None, pid: int | None, place: str) -> TaskUsage | None:
        """Return the usage with these facts, and the `place` at which the program stands."""
        if usage is None or pid is None:
            return usage
        now = time.monotonic()
        if now - self._looked >= _PERIOD:
            self._looked, self._blocked = now, self._threads.look(pid)
        return replace(usage, frozen=is_frozen(pid), blocked=self._blocked, stands_at=place)
