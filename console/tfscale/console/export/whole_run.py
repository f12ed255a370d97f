"""Run of an engine for an export that takes all of it: a listener hears it until the end, or a condition."""

from __future__ import annotations

import asyncio

from tfscale.console.engine.engine import Engine, EngineListener
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.stop_condition import StopCondition


def hear(engine: Engine, until: StopCondition, listener: EngineListener) -> int:
    """Let the listener hear the engine, and return the number of frames."""
    hearing = _Hearing(engine, until, listener)
    asyncio.run(engine.run(hearing))
    return hearing.frames


class _Hearing:
    def __init__(self, engine: Engine, until: StopCondition, listener: EngineListener) -> None:
        self._engine, self._until, self._listener = engine, until, listener
        self.frames = 0

    def event_folded(self, event: Event) -> None:
        self.frames += isinstance(event, FrameArrived)
        self._listener.event_folded(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self._listener.snapshot_taken(snapshot)
        if self._until.is_over(snapshot, self._engine.state):
            self._engine.stop()
