"""Sources of recorded events: all at once, or at the recorded pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfscale.console.engine.events import Event, Rewound, SecondPassed
from tfscale.console.engine.inbox import Inbox
from tfscale.console.recording.recording_reader import Recording
from tfscale.core.cluster.cluster_spec import ClusterSpec

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
HISTORY = 600.0
"""Seconds before the target of a jump that are replayed too, to know the state there."""
_AHEAD = 64
"""Events that may wait in the inbox while the player catches up."""


class RecordedSource:
    """Events as fast as the caller takes them. Can be run once."""

    is_live = False

    def __init__(self, spec: ClusterSpec, events: Iterable[Event], begin: float = 0.0) -> None:
        """Read `events` when run; until the first, `begin` is the present, Unix seconds."""
        self.spec = spec
        self.events = events
        self._now = begin

    def now(self) -> float:
        return self._now

    async def run(self, inbox: Inbox) -> None:
        for event in self.events:
            self._now = event.at
            inbox.put(event)
            await inbox.room()


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a replay; times in Unix seconds."""

    at: float
    begin: float
    end: float
    speed: float
    is_paused: bool


class Player:
    """Recording at its own pace, with the controls of a player."""

    is_live = False

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._at = recording.begin
        self._speed = 1.0
        self._is_paused = False
        self._catch_up_to: float | None = None
        """Time until which events follow each other at once, None at the usual pace."""
        self._jump: float | None = None
        """Time to begin anew at, None without a jump."""
        self._origin = (time.monotonic(), self._at)
        self._changed = asyncio.Event()

    @property
    def spec(self) -> ClusterSpec:
        return self._recording.spec

    @property
    def path(self) -> Path:
        return self._recording.path

    @property
    def damage(self) -> str | None:
        """Damage of the file, None where no damage was read so far."""
        return self._recording.damage

    @property
    def is_catching_up(self) -> bool:
        """True while events follow each other at once, on the way to the requested time."""
        return self._catch_up_to is not None

    @property
    def position(self) -> Position:
        return Position(self._at, self._recording.begin, self._recording.end, self._speed, self._is_paused)

    def now(self) -> float:
        return self._at

    def pause(self, is_paused: bool | None = None) -> None:
        """Pause, or go on; None toggles."""
        self._is_paused = not self._is_paused if is_paused is None else is_paused
        self._catch_up_to = None
        self._restart_clock()

    def hold(self) -> None:
        """Pause once the requested time is reached."""
        self._is_paused = True

    def faster(self, by: int = 1) -> None:
        """Change the speed by `by` places in `SPEEDS`; slower where negative."""
        index = SPEEDS.index(self._speed) + by
        self._speed = SPEEDS[max(0, min(index, len(SPEEDS) - 1))]
        self._restart_clock()

    def step(self, seconds: float) -> None:
        """Go `seconds` on, or back where negative, and pause there."""
        self.seek(self._at + seconds)
        self.hold()

    def seek(self, at: float) -> None:
        """Go to a time, Unix seconds, and on from there as before."""
        at = max(self._recording.begin, min(at, self._recording.end))
        self._catch_up_to = at
        if not self._at <= at <= self._at + HISTORY:
            self._jump = at
        self._changed.set()

    def play_fast(self) -> None:
        """Play without waiting, until paused."""
        self._catch_up_to = self._recording.end
        self._is_paused = True
        self._changed.set()

    async def run(self, inbox: Inbox) -> None:
        events = self._recording.events()
        while True:
            await self._play(events, inbox)
            if self._jump is None:
                self._catch_up_to, self._is_paused = None, True
                await self._wait_for_change()
            if self._jump is not None:
                events = self._begin_anew(self._jump, inbox)
                self._jump = None

    async def _play(self, events: Iterator[Event], inbox: Inbox) -> None:
        """Play until the end, or a jump."""
        self._restart_clock()
        for event in events:
            await self._wait_for(event.at)
            if self._jump is not None:
                return
            self._at = event.at
            inbox.put(event)
            # While catching up, a listener may pause at any second: do not run past it.
            await inbox.room(0 if self._catch_up_to is not None and isinstance(event, SecondPassed) else _AHEAD)

    async def _wait_for(self, at: float) -> None:
        """Return when an event of this time is due, or a jump was requested."""
        while self._jump is None:
            if self._catch_up_to is not None:
                if at <= self._catch_up_to:
                    return
                self._catch_up_to = None
                self._restart_clock()
            began, position = self._origin
            remaining = None if self._is_paused else (at - position) / self._speed - (time.monotonic() - began)
            if remaining is not None and remaining <= 0:
                return
            await self._wait_for_change(remaining)

    async def _wait_for_change(self, patience: float | None = None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(patience):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _restart_clock(self) -> None:
        self._origin = (time.monotonic(), self._at)
        self._changed.set()

    def _begin_anew(self, at: float, inbox: Inbox) -> Iterator[Event]:
        self._at = max(self._recording.begin, at - HISTORY)
        inbox.put(Rewound(self._at))
        self._catch_up_to = at
        return self._recording.events(self._at)
