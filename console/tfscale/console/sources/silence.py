"""Ends the wait for whoever is silent, among many, by a clock that stands still while the console does not listen."""

from __future__ import annotations

import asyncio

_LOOKS = 5
"""In a patience."""


class Silence:
    """Lets each wait last `patience` seconds for which the console itself was there to hear: one that was held up
    finds what was said meanwhile, instead of a thousand broken connections."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._awake = 0.0
        """Seconds."""
        self._waits: dict[asyncio.Timeout, float] = {}

    def begin(self, limit: asyncio.Timeout) -> None:
        """From now on something should be heard within `limit`, which has no deadline of its own."""
        self._waits[limit] = self._awake

    def end(self, limit: asyncio.Timeout) -> None:
        """Something was heard, or is not waited for any more."""
        self._waits.pop(limit, None)

    def cut(self, limit: asyncio.Timeout) -> None:
        """Nothing shall be waited for any more: the wait ends like one that was too long."""
        if self._waits.pop(limit, None) is not None:
            limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Look for who is silent, until cancelled."""
        loop = asyncio.get_running_loop()
        nap = self._patience / _LOOKS
        before = loop.time()
        while True:
            await asyncio.sleep(nap)
            now = loop.time()
            self._awake += min(now - before, 1.5 * nap)
            before = now
            for limit, since in list(self._waits.items()):
                if self._awake - since > self._patience:
                    self.cut(limit)
