"""Folders of runs: what a watch before has recorded is not recorded again, and old recordings give way."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.engine.model import TaskView
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_folder import open_recording, recordings_in
from tfscale.console.recording.recording_reader import RecordingError
from tfscale.console.recording.recording_writer import ActiveRecording, RecordingWriterError
from tfscale.console.report.run_file import open_run
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.watch.run_catalogue import RunCatalogue
from tfscale.console.watch.run_folder import Limits, RunFolder
from tfscale.core.errors import UsageError
from tfscale.core.records.frame import Frame

SPEC = simulated_spec(2)
RUN = simulated(20)
LIMITS = Limits(rotate=10**9, keep=2)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[RunCatalogue]:
    with closing(RunCatalogue(tmp_path, LIMITS)) as opened:
        yield opened


def record(folder: RunFolder, events: Sequence[Event]) -> None:
    folder.begin(events[0].at, [], events)
    folder.tape.end()


def new(watch: RunCatalogue) -> RunFolder:
    return watch.new(SPEC, ActiveRecording(SPEC), RUN[0].at)


def known(watch: RunCatalogue) -> RunFolder:
    folder = watch.newest(SPEC, ActiveRecording(SPEC))
    assert folder is not None
    return folder


def frames(events: Sequence[Event]) -> list[tuple[object, int]]:
    return [(event.task, event.frame.sequence) for event in events if isinstance(event, FrameArrived)]


def test_what_agents_have_kept_is_recorded_after_what_was_recorded_before(watch: RunCatalogue) -> None:
    record(folder := new(watch), RUN[: len(RUN) // 2])
    path = recordings_in(folder.path)[0]
    path.write_bytes(path.read_bytes() + b"more\xff\x00")  # a block that a kill has cut off
    record(known(watch), RUN)
    events = list(open_recording(folder.path).events())
    assert frames(events) == frames(RUN) and recordings_in(folder.path) == [path]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert open_recording(folder.path).end == RUN[-1].at


def test_a_file_of_another_version_is_not_appended_to(watch: RunCatalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    record(folder := new(watch), RUN[: len(RUN) // 2])
    monkeypatch.setattr("tfscale.console.watch.run_folder.installed_version", lambda: "99.0")
    record(known(watch), RUN)
    assert [path.name for path in recordings_in(folder.path)] == ["0001.tfrec", "0002.tfrec"]
    assert frames(list(open_recording(folder.path).events())) == frames(RUN)


def test_a_recording_that_is_long_enough_is_followed_by_the_next_and_the_oldest_give_way(tmp_path: Path) -> None:
    with closing(RunCatalogue(tmp_path, Limits(rotate=1, keep=2))) as watch:
        folder = new(watch)
        folder.begin(RUN[0].at, [], [])
        for number, event in enumerate(RUN):
            folder.write(event)
            if number % 20 == 19:
                folder.keep_up(event.at, lambda _: [])
        folder.end(RUN[-1].at, "well")
    kept = recordings_in(folder.path)
    assert len(kept) == 3 and kept[0].name > "0001.tfrec"
    held = frames(list(open_run(folder.path).events))
    assert held and held == frames(RUN)[-len(held) :], "the newest, without a hole"


def test_a_run_is_known_again_by_its_processes(watch: RunCatalogue) -> None:
    def views(events: Sequence[Event]) -> list[TaskView]:
        state = states(SPEC)()
        for event in events:
            state.fold(event)
        return [view for view in state.picture(events[-1].at).tasks if view.status]

    record(new(watch), RUN[: len(RUN) // 2])
    assert known(watch).is_of(views(RUN)) and known(watch).is_recorded(views(RUN))
    begun_anew = views([replace(event, frame=_restarted(event)) for event in RUN if isinstance(event, FrameArrived)])
    assert not known(watch).is_of(begun_anew) and not known(watch).is_recorded(begun_anew)


def _restarted(event: FrameArrived) -> Frame:
    return replace(event.frame, status=replace(event.frame.status, generation=7, started=event.at))


def test_a_folder_has_one_watch(tmp_path: Path) -> None:
    with closing(RunCatalogue(tmp_path, LIMITS)), pytest.raises(UsageError, match="another watch writes there"):
        RunCatalogue(tmp_path, LIMITS)
    RunCatalogue(tmp_path, LIMITS).close()


def test_a_full_disk_is_told_and_the_recording_goes_on_later(
    watch: RunCatalogue, caplog: pytest.LogCaptureFixture
) -> None:
    begin, lost, later = RUN[:20], RUN[20:40], RUN[40:]
    caplog.set_level("INFO")
    folder = new(watch)
    folder.begin(RUN[0].at, [], begin)
    folder.tape.flush()
    with size_limit(folder.tape.written):
        for event in lost:
            folder.write(event)
        folder.tape.flush()
        folder.keep_up(lost[-1].at, lambda _: [])
    assert "File too large: what came after that is not recorded; tried again in 60 s" in caplog.text
    assert "again, in" not in caplog.text
    folder.keep_up(lost[-1].at + 61, lambda _: [])
    assert f"recorded again, in {folder.path / '0002.tfrec'}" in caplog.text
    for event in later:
        folder.write(event)
    folder.end(RUN[-1].at, "well")
    assert frames([*open_recording(folder.path).events()]) == frames([*begin, *later]) and frames(later)


def test_a_folder_that_was_removed_is_told_and_made_anew(watch: RunCatalogue, caplog: pytest.LogCaptureFixture) -> None:
    begin, lost, later = RUN[:20], RUN[20:40], RUN[40:]
    folder = new(watch)
    folder.begin(RUN[0].at, [], begin)
    folder.tape.flush()
    shutil.rmtree(folder.path)
    for event in lost:
        folder.write(event)
    folder.tape.flush()
    folder.keep_up(lost[-1].at, lambda _: [])
    assert "0001.tfrec: was removed, with all that it had recorded; tried again in 60 s" in caplog.text
    folder.keep_up(lost[-1].at + 61, lambda _: [])
    for event in later:
        folder.write(event)
    folder.end(RUN[-1].at, "well")
    assert frames([*open_recording(folder.path).events()]) == frames(later) and frames(later)


@contextmanager
def size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_report_of_before_that_cannot_be_removed_is_told(watch: RunCatalogue) -> None:
    folder = new(watch)
    (folder.path / "report.html").mkdir(parents=True)
    with pytest.raises(RecordingWriterError, match=f"{folder.path}: Is a directory"):
        record(folder, RUN)


def test_a_folder_without_a_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="holds no recording of a watched run"):
        open_recording(tmp_path)
