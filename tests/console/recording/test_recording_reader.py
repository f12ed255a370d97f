"""Recordings as they are read again, whole or up to their damage."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
import zstandard
from mutations import mutated
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
from tfscale.console.recording.recording_reader import HEAD, OPEN, SIGNATURE, Recording, RecordingError, block_of
from tfscale.console.recording.recording_writer import CHAPTER
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.wire.entries import Header, encode, encode_header
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import Stage

SPEC, NOW = fakes.spec(2), fakes.NOW


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


def test_a_block_larger_than_a_buffer_of_zstd_comes_back_whole(tmp_path: Path) -> None:
    reason = random.Random(3).randbytes(1 << 20).hex()
    events = [LinkChanged(NOW + second, fakes.worker(0), LinkState.DOWN, reason) for second in range(3)]
    recording = Recording(record(tmp_path / "a", events, SPEC, every=1))
    assert list(recording.events()) == events
    assert recording.damage is None


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


@pytest.mark.parametrize(
    ("begun", "cluster", "why"),
    [(NOW, "{", "not JSON"), (NOW, "[" * 50_000, "not JSON"), (math.nan, SPEC.to_json(), "first block is damaged")],
)
def test_a_recording_that_is_made_up_is_one_line(tmp_path: Path, begun: float, cluster: str, why: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(SIGNATURE + block_of(HEAD, begun, encode_header(Header(1, "1", begun, cluster))))
    with pytest.raises(UsageError, match=why):
        Recording(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (encode([SecondPassed(math.nan)], ""), "an event has no date"),
        (bytes(65 << 20), "a block of more than 64 MiB"),
        (b"\x0a\x00" * ((1 << 20) + 1), "a block of more than 1,048,576 events"),
    ],
    ids=["date", "size", "number"],
)
def test_a_block_that_is_made_up_is_damage(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "a"
    head = block_of(HEAD, NOW, encode_header(Header(1, "1", NOW, SPEC.to_json())))
    path.write_bytes(SIGNATURE + head + block_of(OPEN, NOW, zstandard.compress(content)))
    recording = Recording(path)
    assert list(recording.events()) == []
    assert recording.damage is not None and why in recording.damage


def test_whatever_a_block_holds_is_read_or_is_damage(tmp_path: Path) -> None:
    rng = random.Random(5)
    content, path = encode([*of_every_kind(), *simulated(2)], ""), tmp_path / "a"
    head = SIGNATURE + block_of(HEAD, NOW, encode_header(Header(1, "1", NOW, SPEC.to_json())))
    outcomes = set()
    for _ in range(1000):
        payload = zstandard.compress(mutated(content, rng))
        path.write_bytes(head + block_of(OPEN, NOW, payload))
        recording = Recording(path)
        outcomes.add(bool(list(recording.events())))
        assert recording.damage is None or "\n" not in recording.damage
    assert outcomes == {True, False}


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
