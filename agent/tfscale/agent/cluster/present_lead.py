"""The present lead: the lowest task in the cluster's order whose agent answers, normally the lead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeVar

from tfscale.agent.cluster.gang import lowest_living
from tfscale.agent.cluster.peers import Peer
from tfscale.core.cluster.task import Task

_Progress = TypeVar("_Progress")
_LAST_WORDS = 3.0
"""Seconds for the last words of a command that this agent carries, and that places it anew."""


class PresentLead:
    """Agent to which an order belongs that was given to the agent of `task`, and the commands carried to it."""

    def __init__(self, tasks: Sequence[Task], task: Task, peers: Mapping[Task, Peer]) -> None:
        self._lower, self._peers = tasks[: tasks.index(task)], peers
        self._carried: set[asyncio.Event] = set()
        """Ends of the commands that are being carried."""

    async def other(self) -> Peer | None:
        """Return the other agent that leads now, None where the own one does."""
        lower = await lowest_living(self._peers, self._lower)
        return None if lower is None else self._peers[lower]

    async def followed(self, progress: AsyncIterator[_Progress]) -> AsyncIterator[_Progress]:
        """Yield the progress of a command that is carried to another agent, for whose end `settle` waits."""
        over = asyncio.Event()
        self._carried.add(over)
        try:
            async for each in progress:
                yield each
        finally:
            self._carried.discard(over)
            over.set()

    async def settle(self) -> None:
        """Wait until the callers know the outcome of the commands carried, at most some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await asyncio.gather(*(over.wait() for over in self._carried))
