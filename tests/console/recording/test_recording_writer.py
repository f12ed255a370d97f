"""Recordings as they are written: every event is kept, and no file is overwritten."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import fakes
import pytest
from simulated_runs import record
from tfscale.console.engine.events import LinkChanged, LinkState, Rewound, SecondPassed, link_state
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.recording.recording_writer import ActiveRecording, RecordingWriter, RecordingWriterError
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError

SPEC = fakes.spec(2)


def test_a_rewind_is_not_recorded(tmp_path: Path) -> None:
    recording = Recording(record(tmp_path / "a", [SecondPassed(1.0), Rewound(0.5), SecondPassed(2.0)], SPEC))
    assert list(recording.events()) == [SecondPassed(1.0), SecondPassed(2.0)]


def test_the_past_of_a_console_that_came_late_is_recorded_too(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "late", SPEC, fakes.NOW)
    for ago in (60.0, 30.0):
        writer.write(SecondPassed(fakes.NOW - ago))
        writer.flush()
    writer.close()
    assert [event.at for event in Recording(tmp_path / "late").events()] == [fakes.NOW - 60, fakes.NOW - 30]


def test_nothing_is_written_over_and_a_full_disk_is_said(tmp_path: Path) -> None:
    path = record(tmp_path / "a", [SecondPassed(1.0)], SPEC)
    with pytest.raises(UsageError, match="is there already"):
        RecordingWriter(path, SPEC, 0.0)
    with pytest.raises(UsageError, match="cannot be recorded to"):
        RecordingWriter(tmp_path / "no" / "a", SPEC, 0.0)
    (tmp_path / "full").symlink_to("/dev/full")
    tape = ActiveRecording(SPEC)
    with pytest.raises((RecordingWriterError, UsageError)):
        tape.begin(tmp_path / "full", 0.0)


def test_a_kill_loses_at_most_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-m", "tfscale.console.cli", "--simulate", "2", "--headless", "--record", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        frames = (line for line in map(json.loads, process.stdout) if line["type"] == "frame")
        told = [frame["time"] for frame in itertools.islice(frames, 8)]
        killed = time.time()
        process.kill()
    newest = max(event.at for event in Recording(path).events())
    assert newest >= max(at for at in told if at < killed - 1.0)


def test_a_state_of_a_link_that_a_newer_console_wrote_is_read_as_down_with_its_reason(tmp_path: Path) -> None:
    left = LinkChanged(1.0, Task.parse("worker:0"), LinkState.LEFT, "the agent left")
    recording = record(tmp_path / "a", [left], SPEC)
    assert list(Recording(recording).events()) == [left]
    assert link_state("asleep") is LinkState.DOWN
