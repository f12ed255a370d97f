"""The way from a source to its listeners, and the queue between."""

from __future__ import annotations

import asyncio
import time

import fakes
import pytest
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, FrameArrived, LinkChanged, LinkState, Rewound, SecondPassed
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.state import ClusterState
from tfscale.console.sources.host_clock import Clock
from tfscale.core.cluster.cluster_spec import ClusterSpec

SPEC = fakes.spec(2)
FIRST = fakes.worker(0)


class FiniteSource:
    """Source that gives its events and ends."""

    is_live = False

    def __init__(self, events: list[Event], error: Exception | None = None) -> None:
        self.spec: ClusterSpec = SPEC
        self._events, self._error = events, error

    def now(self) -> float:
        return fakes.NOW

    async def run(self, inbox: Inbox) -> None:
        for event in self._events:
            inbox.put(event)
            await inbox.room(1)
        if self._error is not None:
            raise self._error


class SlowAnalysis(fakes.FakeAnalysis):
    """Analysis that takes `seconds` for each diagnosis."""

    def diagnose(self, now: float) -> Findings:
        time.sleep(0.03)
        return super().diagnose(now)


def engine(source: object, analysis: fakes.FakeAnalysis | None = None, **options: object) -> Engine:
    found = analysis or fakes.FakeAnalysis()
    return Engine(source, lambda: ClusterState(SPEC, found), **options)  # type: ignore[arg-type]


async def test_all_is_told_in_order_and_frozen_at_each_second() -> None:
    events = [
        *fakes.healthy_events(SPEC),
        SecondPassed(1.0),
        LinkChanged(1.5, FIRST, LinkState.DOWN),
        SecondPassed(2.0),
    ]
    told, tapped = fakes.Told(), list[Event]()
    await engine(FiniteSource(events), tap=tapped.append).run(told)
    assert told.events == events == tapped
    assert [(snapshot.at, snapshot.up) for snapshot in told.snapshots] == [(1.0, 2), (2.0, 1)]


async def test_a_slow_diagnosis_holds_up_nobody_but_the_next_event() -> None:
    events: list[Event] = [SecondPassed(float(at)) for at in range(1, 6)]
    told, ticks = fakes.Told(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await engine(FiniteSource(events), SlowAnalysis()).run(told)
    ticking.cancel()
    assert [snapshot.at for snapshot in told.snapshots] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert ticks > 10


async def test_stop_tells_what_has_come_and_ends() -> None:
    source = fakes.ScriptedSource(SPEC, fakes.healthy_events(SPEC))
    told = fakes.Told()
    watching = engine(source)
    running = asyncio.create_task(watching.run(told))
    await asyncio.sleep(0.01)
    source.tick()
    watching.stop()
    await asyncio.wait_for(running, 60)
    assert [snapshot.at for snapshot in told.snapshots] == [fakes.NOW, fakes.NOW + 1]


async def test_a_rewind_forgets_and_shows_that() -> None:
    events = [*fakes.healthy_events(SPEC), SecondPassed(5.0), Rewound(2.0), SecondPassed(3.0)]
    told = fakes.Told()
    await engine(FiniteSource(events)).run(told)
    assert [(snapshot.at, snapshot.up) for snapshot in told.snapshots] == [(5.0, 2), (2.0, 0), (3.0, 0)]


async def test_a_source_that_fails_fails_the_engine_after_what_it_gave() -> None:
    told = fakes.Told()
    with pytest.raises(ValueError, match="broken"):
        await engine(FiniteSource([SecondPassed(1.0)], ValueError("broken"))).run(told)


def test_the_inbox_drops_the_oldest_frames_alone_and_counts_them() -> None:
    inbox = Inbox(limit=3)
    link = LinkChanged(1.0, FIRST, LinkState.UP)
    frames = [FrameArrived(float(number), FIRST, fakes.frame(FIRST, number)) for number in range(4)]
    for event in (link, *frames):
        inbox.put(event)
    assert inbox.take(10) == [link, *frames[2:]]
    assert inbox.dropped == 2


async def test_room_is_what_is_neither_waiting_nor_in_hand() -> None:
    inbox = Inbox()
    inbox.put(SecondPassed(1.0))
    room = asyncio.create_task(inbox.room(0))
    await asyncio.sleep(0)
    inbox.take(1)
    await asyncio.sleep(0.01)
    assert not room.done()
    waiting = asyncio.create_task(inbox.wait())
    await asyncio.wait_for(room, 1)
    waiting.cancel()


def test_a_clock_that_is_set_back_goes_on_until_it_is_caught_up_with() -> None:
    wall, steady = [100.0], [0.0]
    clock = Clock(lambda: wall[0], lambda: steady[0])
    told = []
    for now, passed in ((101.0, 1.0), (50.0, 2.0), (51.0, 3.0), (200.0, 4.0)):
        wall[0], steady[0] = now, passed
        told.append(clock())
    assert told == [101.0, 102.0, 103.0, 200.0]
