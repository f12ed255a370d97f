"""Jobs of an agent: tasks of the event loop that nobody awaits, cancelled when the agent ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class Jobs:
    """Jobs under way, held here because the event loop holds its tasks weakly: an unheld job could vanish."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[None, None, None]) -> None:
        """Run the job until it ends, or `cancel` is called."""
        task = asyncio.create_task(job)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def cancel(self) -> None:
        for task in self._under_way:
            task.cancel()
