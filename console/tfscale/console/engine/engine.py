"""Way from a source to its listeners, the same for screens, exports and report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tfscale.console.engine.events import CommandProgressed, Event, Rewound, SecondPassed
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.source import Source
from tfscale.console.engine.state import ClusterState

_BUNCH = 32
"""Events between two turns of the event loop: a key waits for one bunch at most."""
_QUICK = 0.004
"""Seconds that a diagnosis may delay a key. After a longer one the next runs in a thread."""


class EngineListener(Protocol):
    """Receiver of every event, once the state has it, and of every snapshot."""

    def event_folded(self, event: Event) -> None: ...
    def snapshot_taken(self, snapshot: Snapshot) -> None: ...


class Reaction(Protocol):
    """Reaction of a live console to a diagnosis, without a person."""

    def consider(self, snapshot: Snapshot, inbox: Inbox) -> None:
        """Consider a new diagnosis; each action is an event in the inbox."""

    async def close(self) -> None:
        """Do nothing more."""


class Engine:
    """Loop that folds the source's events in order, and takes a snapshot at every `SecondPassed`."""

    def __init__(
        self,
        source: Source,
        new_state: Callable[[], ClusterState],
        tap: Callable[[Event], None] | None = None,
        reaction: Reaction | None = None,
    ) -> None:
        self.source = source
        self.state = new_state()
        self.inbox = Inbox(tap=tap)
        self._new_state = new_state
        self._reaction = reaction
        self._is_slow = False
        self._filling: asyncio.Task[None] | None = None

    async def run(self, listener: EngineListener) -> None:
        """Fold and notify until the source has ended or was stopped, and no event is left; or until cancelled."""
        self._filling = asyncio.create_task(self.source.run(self.inbox))
        self._filling.add_done_callback(lambda _: self.inbox.close())
        folding = asyncio.create_task(self._fold(listener))
        try:
            await asyncio.wait([self._filling, folding], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            try:
                await _end(self._filling, folding)
            finally:
                if self._reaction is not None:
                    await self._reaction.close()

    def stop(self) -> None:
        """Take nothing more from the source."""
        if self._filling is not None:
            self._filling.cancel()

    async def _fold(self, listener: EngineListener) -> None:
        while True:
            await self.inbox.wait()
            bunch = self.inbox.take(_BUNCH)
            if not bunch:
                return
            for event in bunch:
                await self._take(event, listener)
            await asyncio.sleep(0)

    async def _take(self, event: Event, listener: EngineListener) -> None:
        if isinstance(event, Rewound):
            self.state = self._new_state()
        self.state.fold(event)
        # Diagnosed before the listener hears of it: a diagnosis may run in a thread, and a key come meanwhile.
        snapshot = await self._snapshot(event)
        listener.event_folded(event)
        if snapshot is not None:
            listener.snapshot_taken(snapshot)
            if self._reaction is not None and isinstance(event, SecondPassed) and not snapshot.is_outdated:
                self._reaction.consider(snapshot, self.inbox)

    async def _snapshot(self, event: Event) -> Snapshot | None:
        if isinstance(event, SecondPassed):
            return self._dated(await self._diagnose(event.at))
        if isinstance(event, CommandProgressed | Rewound):
            return self._dated(self.state.picture(event.at))
        return None

    def _dated(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with its age."""
        if not self.source.is_live:
            return snapshot
        return replace(snapshot, age=max(0.0, self.source.now() - snapshot.at))

    async def _diagnose(self, at: float) -> Snapshot:
        begin = time.perf_counter()
        if self._is_slow:
            snapshot = await asyncio.to_thread(self.state.snapshot, at)
        else:
            snapshot = self.state.snapshot(at)
        self._is_slow = time.perf_counter() - begin > _QUICK
        return snapshot


async def _end(*jobs: asyncio.Task[None]) -> None:
    for job in jobs:
        job.cancel()
    for outcome in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
