"""What was recorded comes back, whole or as far as the file is."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from tfscale.console.events import (
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    Rewound,
    SecondPassed,
    Stage,
)
from tfscale.console.faults import Fault
from tfscale.console.recorder import CHAPTER, ActiveRecording, RecordingWriter, RecordingWriterError
from tfscale.console.recording import SIGNATURE, Recording, RecordingError
from tfscale.console.simulation import SimulatedCluster
from tfscale.console.sources.simulated import simulated_spec
from tfscale.console.thinning import RUN, WEEK, WEEKLY, WHOLE, RecordingBudget, thinned
from tfscale.core.cluster import ClusterSpec
from tfscale.core.errors import UsageError

SPEC = fakes.spec(2)


def record(path: Path, events: Sequence[Event], spec: ClusterSpec = SPEC, every: int = 4) -> Path:
    recorder = RecordingWriter(path, spec, events[0].at)
    for number, event in enumerate(events):
        recorder.take(event)
        if number % every == every - 1:
            recorder.flush()
    recorder.close()
    return path


def of_every_kind() -> list[Event]:
    events = fakes.killed_events(SPEC)
    progress = CommandProgressed(fakes.NOW, "restart", Stage.PLANNED, tuple(SPEC.tasks), 2, "because")
    down = LinkChanged(fakes.NOW + 1, fakes.worker(1), LinkState.DOWN, "connection refused")
    return [*events, SecondPassed(fakes.NOW), progress, down, SecondPassed(fakes.NOW + 1)]


def simulated(seconds: int, workers: int = 2, *faults: str) -> list[Event]:
    spec = simulated_spec(workers)
    events: list[Event] = []
    second = fakes.NOW + 1
    for event in SimulatedCluster(spec, tuple(map(Fault.parse, faults)), 10.0, 0).arrivals(fakes.NOW):
        while event.at > second:
            events.append(SecondPassed(second))
            second += 1
            if second > fakes.NOW + seconds:
                return events
        events.append(event)
    return events


def float32(event: Event) -> Event:
    """The message has some floats in fewer bits than the fakes have."""
    return replace(event, frame=replace(event.frame, host=None)) if isinstance(event, FrameArrived) else event


def test_every_kind_of_event_comes_back_as_it_was(tmp_path: Path) -> None:
    events = of_every_kind()
    recording = Recording(record(tmp_path / "a", events))
    assert [float32(event) for event in recording.events()] == [float32(event) for event in events]
    assert recording.damage is None
    assert recording.spec.tasks == SPEC.tasks
    assert (recording.begin, recording.end) == (events[0].at, events[-1].at)


def test_a_rewind_is_not_recorded(tmp_path: Path) -> None:
    recording = Recording(record(tmp_path / "a", [SecondPassed(1.0), Rewound(0.5), SecondPassed(2.0)]))
    assert list(recording.events()) == [SecondPassed(1.0), SecondPassed(2.0)]


def test_a_chapter_in_the_middle_tells_what_stands_and_goes_on_from_there(tmp_path: Path) -> None:
    events = simulated(int(3 * CHAPTER))
    recording = Recording(record(tmp_path / "a", events, simulated_spec(2)))
    since = fakes.NOW + 2.5 * CHAPTER
    later = list(recording.events(since))
    assert {event.state for event in later[:4] if isinstance(event, LinkChanged)} == {LinkState.UP}
    frames = [event.at for event in later if isinstance(event, FrameArrived)]
    assert since - CHAPTER - 1 < frames[0] < since
    assert frames == [event.at for event in events if isinstance(event, FrameArrived)][-len(frames) :]


def test_nothing_is_written_over_and_a_full_disk_is_said(tmp_path: Path) -> None:
    path = record(tmp_path / "a", [SecondPassed(1.0)])
    with pytest.raises(UsageError, match="is there already"):
        RecordingWriter(path, SPEC, 0.0)
    with pytest.raises(UsageError, match="cannot be recorded to"):
        RecordingWriter(tmp_path / "no" / "a", SPEC, 0.0)
    (tmp_path / "full").symlink_to("/dev/full")
    tape = ActiveRecording(SPEC)
    with pytest.raises((RecordingWriterError, UsageError)):
        tape.begin(tmp_path / "full", 0.0)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n", b'{"type":"header"}\n', SIGNATURE, SIGNATURE + b"head" * 9])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(RecordingError):
        Recording(path)


def test_another_schema_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.console.recorder.SCHEMA_VERSION", 7)
    path = record(tmp_path / "a", [SecondPassed(1.0)])
    with pytest.raises(RecordingError, match="of schema 7: this tfscale reads up to 1, update it"):
        Recording(path)


def test_a_thousand_truncations_and_as_many_flips_open_up_to_the_damage(tmp_path: Path) -> None:
    events = simulated(6)
    whole = record(tmp_path / "whole", events, simulated_spec(2), every=3).read_bytes()
    chance = random.Random(20)
    path = tmp_path / "hurt"
    refused = 0
    for number in range(2000):
        data = bytearray(whole)
        at = chance.randrange(len(data))
        if number % 2:
            del data[at:]
        else:
            data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            recording = Recording(path)
        except RecordingError:
            refused += 1
            continue
        read = [event.at for event in recording.events()]
        assert read == [event.at for event in events][: len(read)]
        assert recording.damage or len(read) == len(events) or number % 2
        assert recording.damage is None or str(path) in recording.damage
    assert refused < 200


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


def test_thinning_keeps_the_same_steps_of_all_and_counts_what_it_left_out() -> None:
    task = fakes.worker(0)
    frame = replace(fakes.frame(task), steps=(fakes.steps(task, first=0, count=8 * RUN),))
    event = FrameArrived(fakes.NOW, task, frame, lambda: b"")
    kept = thinned(event, 4)
    assert isinstance(kept, FrameArrived) and kept.message is None
    (batch,) = kept.frame.steps
    assert list(batch.sequence) == [*range(RUN), *range(4 * RUN, 5 * RUN)]
    assert len(batch.end) == len(batch.compute) == len(batch.global_step) == 2 * RUN
    assert batch.lost == 6 * RUN
    assert thinned(SecondPassed(1.0), 4) == SecondPassed(1.0)


def test_a_week_stays_within_its_bound() -> None:
    allowance, written = RecordingBudget(0.0, 64), 0
    for minute in range(int(WEEK / 60)):
        at = 60.0 * minute
        # 64 tasks at 100 steps a second, as they compress: 2 KB of steps and 50 bytes besides.
        written += 64 * 60 * (50 + 2000 // allowance.share(written, at))
    assert WHOLE < written < 1.02 * WEEKLY
