"""Lets many go on together: waking up for one after the other would cost more than what they are woken up for."""

from __future__ import annotations

import asyncio


class Beat:
    """Those who wait go on in one turn of the loop, up to `seconds` after the first of them began to."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next: asyncio.Event | None = None

    async def wait(self) -> None:
        if self._next is None:
            self._next = asyncio.Event()
            asyncio.get_running_loop().call_later(self._seconds, self._strike)
        await self._next.wait()

    def _strike(self) -> None:
        if self._next is not None:
            self._next.set()
            self._next = None
