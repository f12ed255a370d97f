"""Watch over a task whose process has stopped making steps: it asks where its program stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tfscale.agent.on_demand.stack_requests import StackDump, StackTimeout, StackUnavailable
from tfscale.agent.process.standing_place import standing_place
from tfscale.core.records.probe_status import Collective

STILL = 4.0
"""Seconds without progress after which the stacks are requested. Slow steps take less, and each request interrupts
the program; by then a console reports the standstill, and wants to say where."""
AGAIN = 30.0
"""Seconds after which the stacks are requested again: by then a program may stand in another place."""


class StandstillWatch:
    """Requester of the stacks of a process that stands still; `place` is where it stands, empty while unknown."""

    def __init__(self, take_stack: Callable[[], Awaitable[StackDump]]) -> None:
        self._take_stack = take_stack
        self.place = ""
        self._progress: Collective | None = None
        self._since = 0.0
        self._next = 0.0
        self._asking: asyncio.Task[None] | None = None

    def look(self, progress: Collective | None) -> None:
        """Take in the collectives that the process has entered and left so far; call it each second."""
        now = time.monotonic()
        if progress is None or progress != self._progress:
            self._progress, self._since, self._next, self.place = progress, now, now + STILL, ""
            return
        if now >= self._next and progress.left and (self._asking is None or self._asking.done()):
            self._next = now + AGAIN
            self._asking = asyncio.create_task(self._ask(progress))

    async def _ask(self, progress: Collective) -> None:
        try:
            place = standing_place((await self._take_stack()).text)
        except (StackUnavailable, StackTimeout):
            place = ""
        if progress == self._progress:
            self.place = place
