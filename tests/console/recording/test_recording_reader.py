"""Recordings as they are read again, whole or up to their damage."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from simulated_runs import record, simulated
from tfscale.console.engine.events import (
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    PolicyTold,
    SecondPassed,
)
from tfscale.console.recording.recording_reader import SIGNATURE, Recording, RecordingError
from tfscale.console.recording.recording_writer import CHAPTER
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.records.task_status import Stage

SPEC = fakes.spec(2)


def of_every_kind() -> list[Event]:
    events = fakes.killed_events(SPEC)
    progress = CommandProgressed(fakes.NOW, "restart", Stage.PLANNED, tuple(SPEC.tasks), 2, "because")
    down = LinkChanged(fakes.NOW + 1, fakes.worker(1), LinkState.DOWN, "connection refused")
    policy = PolicyTold(fakes.NOW + 1, fakes.worker(1), "not tried again")
    return [*events, SecondPassed(fakes.NOW), progress, down, policy, SecondPassed(fakes.NOW + 1)]


def float32(event: Event) -> Event:
    """Remove the host, some of whose numbers the message has in fewer bits than the fakes."""
    return replace(event, frame=replace(event.frame, host=None)) if isinstance(event, FrameArrived) else event


def test_every_kind_of_event_comes_back_as_it_was(tmp_path: Path) -> None:
    events = of_every_kind()
    recording = Recording(record(tmp_path / "a", events, SPEC))
    assert [float32(event) for event in recording.events()] == [float32(event) for event in events]
    assert recording.damage is None
    assert recording.spec.tasks == SPEC.tasks
    assert (recording.begin, recording.end) == (events[0].at, events[-1].at)


def test_a_chapter_in_the_middle_tells_what_stands_and_goes_on_from_there(tmp_path: Path) -> None:
    events = simulated(int(3 * CHAPTER))
    recording = Recording(record(tmp_path / "a", events, simulated_spec(2)))
    since = fakes.NOW + 2.5 * CHAPTER
    later = list(recording.events(since))
    assert {event.state for event in later[:4] if isinstance(event, LinkChanged)} == {LinkState.UP}
    frames = [event.at for event in later if isinstance(event, FrameArrived)]
    assert since - CHAPTER - 1 < frames[0] < since
    assert frames == [event.at for event in events if isinstance(event, FrameArrived)][-len(frames) :]


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n", b'{"type":"header"}\n', SIGNATURE, SIGNATURE + b"head" * 9])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(RecordingError):
        Recording(path)


def test_another_schema_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.console.recording.recording_writer.SCHEMA_VERSION", 7)
    path = record(tmp_path / "a", [SecondPassed(1.0)], SPEC)
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
