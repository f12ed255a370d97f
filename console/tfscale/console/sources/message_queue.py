"""Messages of many streams, handled together: to wake each stream costs more than to handle its message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_BUNCH = 16
"""Messages handled at a time; then the keyboard has its turn."""
_LIMIT = 32 << 20
"""Bytes that may wait."""


class MessageQueue:
    """Queue whose messages are handled in order, up to `seconds` after the first message arrived."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: list[tuple[Callable[[bytes], Awaitable[None]], bytes]] = []
        self._bytes = 0
        self._put = 0
        self._done = 0
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    async def put(self, take: Callable[[bytes], Awaitable[None]], data: bytes) -> None:
        """Have `take` called with `data` later. Waits only while there is no room."""
        while self._bytes > _LIMIT:
            await self._emptied.wait()
        self._waiting.append((take, data))
        self._bytes += len(data)
        self._put += 1
        self._filled.set()

    async def taken(self) -> None:
        """Return when everything put until now has been taken."""
        put = self._put
        while self._done < put:
            await self._emptied.wait()

    async def run(self) -> None:
        """Handle messages until cancelled, or until a `take` raises."""
        while True:
            await self._filled.wait()
            await asyncio.sleep(self._seconds)
            await self._take_all()

    async def _take_all(self) -> None:
        self._filled.clear()
        # What comes while these are taken is for the next time.
        waiting, self._waiting = self._waiting, []
        for take, data in waiting:
            await take(data)
            self._bytes -= len(data)
            self._done += 1
            if self._done % _BUNCH == 0:
                await asyncio.sleep(0)
        self._emptied.set()
        self._emptied = asyncio.Event()
