"""A watch over several clusters of fake agents: one process, a folder a run, found as they come."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_agent import FakeCluster
from tfscale.console.engine.events import FrameArrived
from tfscale.console.recording.recording_folder import open_recording
from tfscale.console.settings.config import Settings
from tfscale.console.tracking.tracker import Destination
from tfscale.console.watch.past_file import past_of, read_past
from tfscale.console.watch.report_queue import ReportQueue
from tfscale.console.watch.run_catalogue import RunCatalogue
from tfscale.console.watch.run_folder import Limits, read_facts
from tfscale.console.watch.watch_command import Watch
from tfscale.console.watch.watched_places import WatchedPlaces
from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from waiting import until


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}


@asynccontextmanager
async def training(folder: Path, name: str) -> AsyncIterator[FakeCluster]:
    """Run a cluster of fake agents, with its cluster file in the folder."""
    async with FakeCluster(2) as cluster:
        (folder / f"{name}.toml").write_text(cluster.cluster_file().replace('"fake"', f'"{name}"'))
        playing = asyncio.create_task(cluster.play())
        try:
            yield cluster
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)


@asynccontextmanager
async def watching(settings: Settings, environment: dict[str, str]) -> AsyncIterator[None]:
    """Watch until the block ends, as by Ctrl-C."""
    places = WatchedPlaces(settings, {"cluster": "--cluster"}, environment)
    assert settings.runs is not None
    with closing(RunCatalogue(settings.runs, Limits(10**9, 2))) as catalogue:
        job = asyncio.create_task(Watch(settings, environment, places, catalogue).run())
        try:
            yield
        finally:
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGINT)
            await job


def runs(root: Path) -> dict[str, Path]:
    """Return the folder of each run in which something is recorded, by the run's name."""
    known = {facts.name: path.parent for path in root.glob("*/run.json") if (facts := read_facts(path.parent))}
    return {name: path for name, path in known.items() if (path / "past.json").exists()}


async def test_each_cluster_file_of_a_folder_is_watched_also_one_that_comes_later(
    tmp_path: Path, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    folder, root = tmp_path / "clusters", tmp_path / "runs"
    folder.mkdir()
    (folder / "broken.toml").write_text("cluster = 3")
    (folder / "notes.txt").write_text("no cluster")
    async with training(folder, "one"), watching(Settings(cluster=folder, runs=root), environment):
        await until(lambda: set(runs(root)) == {"one"})
        async with training(folder, "two"):
            await until(lambda: set(runs(root)) == {"one", "two"})
    workers = {Task.parse("worker:0"), Task.parse("worker:1")}
    assert all(recorded_tasks(path) == workers for path in runs(root).values())
    assert len([record for record in caplog.records if "broken.toml" in record.message]) == 1


async def test_a_folder_that_cannot_be_read_for_now_ends_no_watch(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, root = tmp_path / "clusters", tmp_path / "runs"
    folder.mkdir()
    listed = Path.iterdir

    def refused(path: Path) -> Iterator[Path]:
        """List a folder as a disk that is away does, which root can not have by rights."""
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    def told() -> int:
        return len([record for record in caplog.records if f"{folder}: cannot be read" in record.message])

    async with training(folder, "one"), watching(Settings(cluster=folder, runs=root), environment):
        await until(lambda: set(runs(root)) == {"one"})
        with monkeypatch.context() as patched:
            patched.setattr(Path, "iterdir", refused)
            await until(lambda: told() == 1)
        async with training(folder, "two"):
            await until(lambda: set(runs(root)) == {"one", "two"})
    assert told() == 1


async def test_an_edit_of_a_cluster_file_ends_no_run_and_neither_does_a_file_that_is_broken_for_a_while(
    tmp_path: Path, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file, root = tmp_path / "one.toml", tmp_path / "runs"

    def said(words: str) -> bool:
        return any(words in record.message for record in caplog.records)

    async with training(tmp_path, "one"), watching(Settings(cluster=file, runs=root), environment):
        await until(lambda: set(runs(root)) == {"one"})
        text = file.read_text()
        file.write_text("[cluster")
        await until(lambda: said("one.toml: not TOML"))
        file.write_text(f'{text}\n[recovery]\npolicy = "OnFailure"\n')
        await until(lambda: said("goes on, in"))
    facts = [read_facts(path.parent) for path in root.glob("*/run.json")]
    assert [each.ended for each in facts if each] == [None] and not said("has ended")


async def test_a_run_goes_on_in_a_new_folder_where_the_clock_was_set_back(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(cluster=tmp_path / "one.toml", runs=tmp_path / "runs")

    def folders() -> list[Path]:
        return sorted(path.parent for path in (tmp_path / "runs").glob("*/past.json"))

    async with training(tmp_path, "one"):
        async with watching(settings, environment):
            await until(lambda: len(folders()) == 1)
        before = time.time
        monkeypatch.setattr("tfscale.console.watch.cluster_watch.time", SimpleNamespace(time=lambda: before() - 3600))
        async with watching(settings, environment):
            await until(lambda: len(folders()) == 2)
    first, second = map(read_facts, folders())
    assert first and first.how == "its recording ends where the clock was set back" and second and not second.how
    assert "which is still to come: the clock was set back" in caplog.text


def recorded_tasks(folder: Path) -> set[Task]:
    return {event.task for event in open_recording(folder).events() if isinstance(event, FrameArrived)}


async def test_a_cluster_file_with_another_comment_is_the_same_run(tmp_path: Path, environment: dict[str, str]) -> None:
    root, file = tmp_path / "runs", tmp_path / "one.toml"
    async with training(tmp_path, "one") as cluster, watching(Settings(cluster=file, runs=root), environment):
        await until(lambda: set(runs(root)) == {"one"})
        file.write_text(file.read_text() + "# a comment\n")
        frames = cluster.agents[Task.parse("worker:0")].sequence
        await until(lambda: cluster.agents[Task.parse("worker:0")].sequence > frames + 4)
    assert len([*root.glob("*/run.json")]) == 1
    assert cluster.agents[Task.parse("worker:0")].watches == 1, "the stream went on"


async def test_a_late_console_has_the_past_of_this_users_watch_or_of_the_named_folder(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    root = Path(environment["XDG_STATE_HOME"]) / "tfscale" / "watch"
    async with training(tmp_path, "one"), watching(Settings(cluster=tmp_path / "one.toml", runs=root), environment):
        await until(lambda: set(runs(root)) == {"one"})
    spec, folder = load_cluster(tmp_path / "one.toml"), runs(root)["one"]
    found = past_of(spec, Settings(), environment)
    assert found is not None and set(found.agents) == {"worker:0", "worker:1"}
    assert past_of(spec, Settings(history=folder), {}) == found == read_past(folder)
    assert past_of(replace(spec, name="other"), Settings(), environment) is None
    with pytest.raises(UsageError, match="no folder of a watched run"):
        past_of(spec, Settings(history=tmp_path), environment)
    (folder / "past.json").write_text("{")
    assert past_of(spec, Settings(), environment) is None, "told in the log"


async def test_a_cluster_file_that_is_not_there_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no such cluster file"):
        WatchedPlaces(Settings(cluster=tmp_path / "none.toml"), {"cluster": "--cluster"}, environment)


async def test_the_numbers_of_each_run_are_tracked_in_a_folder_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "clusters").mkdir()
    logs, runs = tmp_path / "logs", tmp_path / "runs"
    settings = Settings(cluster=tmp_path / "clusters", runs=runs, track=(Destination("tensorboard", str(logs)),))
    async with training(tmp_path / "clusters", "digits"), training(tmp_path / "clusters", "letters"):
        async with watching(settings, environment):
            await until(lambda: len([*logs.glob("*/worker-1/events*")]) == 2)
        names = {path.name for path in runs.iterdir() if path.is_dir()}
    assert {path.name for path in logs.iterdir()} <= names and len(names) >= 2


async def test_a_report_whose_writer_cannot_be_started_is_told_and_the_next_one_is_written_all_the_same(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    writing = asyncio.create_task(ReportQueue([Path("one"), Path("two")]).run())
    await until(lambda: "no report of two: its writer cannot be started: No such file" in caplog.text)
    writing.cancel()
    assert "no report of one" in caplog.text
