"""Pauses of tasks that make no step and yet do not hang: a signal or a debugger has stopped one, or one evaluates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tfscale.core.cluster.task import Task
from tfscale.core.failure import hang_limits

_AT_ONCE = 32
"""Agents that are asked at once."""


class HangPauses:
    """Questions to all tasks; each of `ask` returns why its task makes no step, empty where it has no reason."""

    def __init__(self, ask: Mapping[Task, Callable[[], Awaitable[str]]]) -> None:
        self._ask = ask
        self._pausing: Task | None = None
        self._words = ""
        self._counts_until = 0.0
        """Time on the loop's clock up to which the last pause counts: after it the first step takes a while."""

    async def of(self, tasks: Sequence[Task]) -> str:
        """Return which of these tasks pauses and why, empty where none has paused for the shortest time of a hang."""
        loop = asyncio.get_running_loop()
        first = [task for task in tasks if task == self._pausing]
        # A pause may last for minutes: the task that was seen in one is asked alone.
        if words := await self._first_of(first) or await self._first_of(tasks):
            self._words, self._counts_until = words, loop.time() + hang_limits.SHORTEST
        return self._words if loop.time() < self._counts_until else ""

    async def _first_of(self, tasks: Sequence[Task]) -> str:
        for begin in range(0, len(tasks), _AT_ONCE):
            some = [task for task in tasks[begin : begin + _AT_ONCE] if task in self._ask]
            reasons = await asyncio.gather(*(self._ask[task]() for task in some))
            for task, why in zip(some, reasons, strict=True):
                if why:
                    self._pausing = task
                    return f"{task} {why}"
        return ""
