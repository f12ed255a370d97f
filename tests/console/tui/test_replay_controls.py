"""The operator's controls of a replay."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import fakes
import pytest
from simulated_runs import playing, record, simulated, told_live
from tfscale.console.engine.events import Event
from tfscale.console.engine.model import Snapshot
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.replay_controls import ReplayControls
from tfscale.core.errors import UsageError
from waiting import until

FAULT = "worker:1=1.8x@6s"
LENGTH = 40


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return simulated(LENGTH, 3, FAULT)


@pytest.fixture(scope="module")
def path(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("replay") / "a.tfrec", events, simulated_spec(3), every=10)


async def test_the_next_event_is_come_to_and_not_run_past(events: list[Event], path: Path) -> None:
    at = told_live(events)[0][0]
    async with playing(path) as (player, told):
        controls = ReplayControls(player)
        await until(lambda: told.snapshots)
        seen = 0

        def watch(snapshot: Snapshot) -> None:
            nonlocal seen
            seen += 1
            told.snapshots.append(snapshot)
            controls.watch(snapshot)

        told.snapshot_taken = watch  # type: ignore[method-assign]
        controls.next_event(told.snapshots[-1])
        assert controls.title().endswith("%, looking for an event") and controls.title().startswith("20")
        await until(lambda: told.snapshots[-1].at >= at)
        await asyncio.sleep(0.1)
        assert told.snapshots[-1].at == at and player.position.is_paused
        assert controls.title().endswith("%"), "a tag says that it is paused"
        player.seek(fakes.NOW + LENGTH)
        await until(lambda: told.snapshots[-1].at == fakes.NOW + LENGTH)
        controls.last_event(told.snapshots[-1])
        await until(lambda: told.snapshots[-1].at == at)


async def test_moments_are_named_as_people_do(path: Path) -> None:
    controls = ReplayControls(Player(Recording(path)))
    begin, end = controls.player.position.begin, controls.player.position.end
    clock = time.strftime("%H:%M:%S", time.localtime(begin + 10))
    assert controls._time(clock) == pytest.approx(begin + 10, abs=1)
    later = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begin + 20))
    assert controls._time(later) == pytest.approx(begin + 20, abs=1)
    for dated, why in (
        ("2001-01-01 12:00", "is not in the recording, which goes from "),
        ("2026-02-31 12:00", "no calen"),
    ):
        with pytest.raises(UsageError, match=why):
            controls.go_to(dated)
    assert controls._time("+90s") == begin + 90
    assert controls._time("-5m") == begin - 300
    assert controls._time("50%") == pytest.approx((begin + end) / 2)
    with pytest.raises(UsageError, match="is no moment"):
        controls.go_to("lunch")
