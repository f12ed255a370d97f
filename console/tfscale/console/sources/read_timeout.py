"""Timeouts of reads, without the time in which the console's own loop was held up."""

from __future__ import annotations

import asyncio

_CHECKS = 5
"""Checks within one timeout."""


class ReadTimeout:
    """Timeout of `patience` seconds for many reads.

    A console that was held up finds the messages that came meanwhile, instead of a thousand broken connections.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._awake = 0.0
        """Seconds in which the loop was not held up."""
        self._waits: dict[asyncio.Timeout, float] = {}

    def begin(self, limit: asyncio.Timeout) -> None:
        """Begin to wait within `limit`, a timeout without a deadline of its own."""
        self._waits[limit] = self._awake

    def end(self, limit: asyncio.Timeout) -> None:
        """End the wait: a message came, or none is expected any more."""
        self._waits.pop(limit, None)

    def cut(self, limit: asyncio.Timeout) -> None:
        """End the wait at once, as a timeout would."""
        if self._waits.pop(limit, None) is not None:
            limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """End the waits that last too long, until cancelled."""
        loop = asyncio.get_running_loop()
        pause = self._patience / _CHECKS
        before = loop.time()
        while True:
            await asyncio.sleep(pause)
            now = loop.time()
            self._awake += min(now - before, 1.5 * pause)
            before = now
            for limit, since in list(self._waits.items()):
                if self._awake - since > self._patience:
                    self.cut(limit)
