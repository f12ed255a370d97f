"""The keys of a replay and of a recording, as they are typed."""

from __future__ import annotations

from pathlib import Path

import fakes
import pytest
from simulated_runs import record, simulated
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, SecondPassed
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.transport.commands import NoCommands
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.replay_app import ReplayApp
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from waiting import until


def recordings(folder: Path) -> list[Path]:
    return list(folder.glob("*.tfrec"))


def replay(path: Path) -> tuple[ConsoleApp, Player]:
    player = Player(Recording(path))
    return ReplayApp(Engine(player, states(player.spec)), player, NoCommands("this is a replay")), player


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("screen") / "a.tfrec", simulated(20, 2), simulated_spec(2), every=20)


async def test_replay_keys_do_what_the_help_says(path: Path) -> None:
    app, player = replay(path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.cluster.snapshot is not None, pilot.pause)
        await pilot.press("p", "plus", "plus", "minus")
        assert player.position.is_paused and player.position.speed == 2.0
        await pilot.press("colon")
        await pilot.press("5", "0", "%", "enter")
        await until(lambda: app.cluster.snapshot.at == fakes.NOW + 10, pilot.pause)
        before = app.cluster.snapshot.at
        await pilot.press("right_square_bracket")
        await until(lambda: app.cluster.snapshot.at == before + 1, pilot.pause)
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(lambda: app.cluster.snapshot.at == before - 1, pilot.pause)
        assert app.cluster.title_line.note.endswith("%")
        assert [tag.word for tag in app.cluster.title_line.tags] == ["REPLAY", "PAUSED"]
        await pilot.press("R")
        assert not recordings(Path())


@pytest.mark.parametrize(("key", "place"), [("e", "title"), ("v", "title"), ("enter", "key bar")])
async def test_position_and_keys_of_a_replay_are_on_every_page(path: Path, key: str, place: str) -> None:
    app, _ = replay(path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.cluster.snapshot is not None, pilot.pause)
        await pilot.press("p", key)
        await until(lambda: app.screen is not app.cluster and app.screen.query_one(KeyBar).first, pilot.pause)
        first = app.screen.query_one(KeyBar).first
        assert ("n N", "events") in first and ("p", "play") in first
        said = app.screen.query_one(Title).note if place == "title" else first[0][1]
        assert said.endswith("%") and (said.startswith("20") or place != "title")


async def test_enter_on_an_event_goes_to_its_moment(tmp_path: Path) -> None:
    cut = simulated(20, 2, "worker:1=cut@3s-9s")
    app, player = replay(record(tmp_path / "cut.tfrec", cut, simulated_spec(2), every=20))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.cluster.snapshot is not None, pilot.pause)
        player.seek(fakes.NOW + 15)
        await until(lambda: app.cluster.snapshot.at == fakes.NOW + 15, pilot.pause)
        await pilot.press("e", "g")
        at = app.screen.events.cursor.at
        assert at < fakes.NOW + 10
        await pilot.press("enter")
        await until(lambda: app.screen.snapshot.at <= at + 1, pilot.pause)
        assert player.position.is_paused and abs(player.now() - at) < 1.5


def hurt(path: Path, to: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    to.write_bytes(data)


async def test_a_damaged_recording_says_so_on_the_screen(path: Path, tmp_path: Path) -> None:
    hurt(path, tmp_path / "hurt")
    app, player = replay(tmp_path / "hurt")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.cluster.snapshot is not None, pilot.pause)
        player.seek(fakes.NOW + 1e6)
        await until(
            lambda: any("damaged at byte" in notification.message for notification in app._notifications), pilot.pause
        )


async def test_a_recording_is_begun_and_ended_by_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = fakes.spec(2)
    source = fakes.ScriptedSource(spec, fakes.healthy_events(spec))
    tape = ActiveRecording(spec)
    app = ConsoleApp(Engine(source, lambda: ClusterState(spec, fakes.FakeAnalysis()), tape.write), NoCommands(""), tape)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.cluster.snapshot is not None, pilot.pause)
        await pilot.press("R")
        assert " REC " in str(app.cluster.title_line.render())
        source.tick()
        await pilot.pause(0.1)
        await pilot.press("R")
        assert app.cluster.title_line.tags == ()
    events = list(Recording(next(iter(recordings(tmp_path)))).events())
    assert SecondPassed(fakes.NOW + 1) in events
    assert sum(isinstance(event, AgentDescribed) for event in events) == 2
