"""Replays: the same findings as live, at any pace and from any moment."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import fakes
import pytest
from simulated_runs import changes, playing, record, simulated, told_live
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.sources.recorded import HISTORY, RecordedSource
from tfscale.console.sources.simulation.simulated import simulated_spec
from waiting import until

FAULT = "worker:1=1.8x@6s"
LENGTH = 40


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return simulated(LENGTH, 3, FAULT)


@pytest.fixture(scope="module")
def path(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("replay") / "a.tfrec", events, simulated_spec(3), every=10)


async def test_a_replay_says_the_same_at_the_same_times(events: list[Event], path: Path) -> None:
    told = fakes.Told()
    recording = Recording(path)
    await Engine(RecordedSource(recording.spec, recording.events()), states(recording.spec)).run(told)
    live = told_live(events)
    assert changes(told.snapshots) == live
    assert [subject for _, subject, _, _ in live] == ["worker:1"]


async def test_it_goes_at_its_pace_and_faster(path: Path) -> None:
    async with playing(path) as (player, told):
        await until(lambda: told.snapshots)
        began, before = time.monotonic(), player.now()
        for _ in range(5):
            player.faster()
        assert player.position.speed == 32.0
        await until(lambda: player.now() - before > 10)
        gone = player.now() - before
        passed = time.monotonic() - began
        assert passed < gone <= 32 * passed + 1
        player.faster(-100)
        assert player.position.speed == 0.1


async def test_it_stands_still_steps_and_jumps(path: Path) -> None:
    async with playing(path) as (player, told):
        player.pause()
        await asyncio.sleep(0.05)
        at = player.now()
        await asyncio.sleep(0.1)
        assert player.now() == at
        player.seek(fakes.NOW + 20)
        await until(lambda: told.snapshots and told.snapshots[-1].at == fakes.NOW + 20)
        player.step(1)
        await until(lambda: told.snapshots[-1].at == fakes.NOW + 21)
        player.step(-5)
        await until(lambda: told.snapshots[-1].at == fakes.NOW + 16 and not player.is_catching_up)
        assert told.snapshots[-1].up == 3
        player.seek(fakes.NOW + 1e6)
        await until(lambda: told.snapshots[-1].at == fakes.NOW + LENGTH)


async def test_at_its_end_it_waits_to_be_told_more(path: Path) -> None:
    async with playing(path) as (player, told):
        player.seek(fakes.NOW + 1e6)
        await until(lambda: player.position.is_paused)
        player.pause()
        player.faster()
        player.seek(fakes.NOW + 3)
        await until(lambda: told.snapshots[-1].at == fakes.NOW + 3)


async def test_a_far_jump_folds_no_more_than_is_needed_to_know_what_holds(tmp_path: Path) -> None:
    events = simulated(int(HISTORY) + 400)
    path = record(tmp_path / "long", events, simulated_spec(2), every=100)
    async with playing(path) as (player, told):
        await until(lambda: told.events)
        player.seek(fakes.NOW + HISTORY + 350)
        await until(lambda: told.snapshots and told.snapshots[-1].at == fakes.NOW + HISTORY + 350)
        seconds = [event.at for event in told.events if isinstance(event, SecondPassed)]
        far = next(at for at in seconds if at > fakes.NOW + 100)
        assert fakes.NOW + 250 < far < fakes.NOW + 360
        assert told.snapshots[-1].up == 2
