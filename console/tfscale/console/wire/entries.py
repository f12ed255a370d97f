"""Events as the entries of a recording, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    MilestoneTold,
    PolicyTold,
    SecondPassed,
    link_state,
)
from tfscale.console.wire import calls, frames
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.text import printable
from tfscale.core.validation import is_moment
from tfscale.core.wire.convert import message_of, parsed, record_of
from tfscale.core.wire.fields import delimited, fields_in
from tfscale.v1 import agent_pb2, recording_pb2

_ENTRIES = recording_pb2.Entries.ENTRIES_FIELD_NUMBER
_FRAME = recording_pb2.Entry.FRAME_FIELD_NUMBER
_MOST_ENTRIES = 1 << 20
"""Entries that are read of one message (chosen): 1,000 tasks make as many in a quarter of an hour."""


class EntryError(ValueError):
    """Bytes that hold no entries."""


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a recording."""

    schema_version: int
    version: str
    """Version of the tfscale that recorded."""
    begun: float
    """Unix seconds on the clock of the console that recorded."""
    cluster: str
    """The cluster file as JSON."""


def encode_header(header: Header) -> bytes:
    return message_of(recording_pb2.RecordingHeader, header).SerializeToString()


def decode_header(data: bytes) -> Header:
    """Return the header in the bytes of its message. Raises WireError."""
    return record_of(Header, parsed(recording_pb2.RecordingHeader, data))


def encode(events: Iterable[Event], cluster: str) -> bytes:
    """Return events in their order as one `Entries` message, without the `cluster` that all agents describe."""
    return b"".join(delimited(_ENTRIES, _entry(event, cluster)) for event in events)


def decode(data: bytes, cluster: str) -> Iterator[Event]:
    """Yield the events of an `Entries` message, without kinds that a newer console has added. Raises EntryError.

    Entries are read one by one: all at once, empty ones would take fifty times their bytes.
    """
    try:
        for count, (number, entry) in enumerate(fields_in(data)):
            if count == _MOST_ENTRIES:
                raise EntryError(f"a block of more than {_MOST_ENTRIES:,} events")
            if number == _ENTRIES and isinstance(entry, bytes):
                event = _event(parsed(recording_pb2.Entry, entry), cluster)
                if event is not None:
                    yield event
    except (UsageError, ValueError) as error:
        raise EntryError(str(error)) from None


def _entry(event: Event, cluster: str) -> bytes:
    entry = recording_pb2.Entry(at=event.at)
    if isinstance(event, FrameArrived) and event.message is not None:
        # A frame that came as bytes is written as bytes: a thousand a second are not worth encoding again.
        entry.task = str(event.task)
        return entry.SerializeToString() + delimited(_FRAME, event.message)
    _fill(entry, event, cluster)
    return entry.SerializeToString()


def _fill(entry: recording_pb2.Entry, event: Event, cluster: str) -> None:
    match event:
        case FrameArrived(_, task, frame):
            entry.task = str(task)
            entry.frame.CopyFrom(frames.frame_message(frame))
        case AgentDescribed(_, task, description):
            entry.task = str(task)
            entry.description.CopyFrom(message_of(agent_pb2.Description, description))
            entry.description.schema_version = SCHEMA_VERSION
            if description.cluster == cluster:
                entry.description.ClearField("cluster")
        case LinkChanged(_, task, state, reason):
            entry.task = str(task)
            entry.link.state, entry.link.reason = state, reason
        case CommandProgressed():
            entry.verb = event.verb
            entry.progress.CopyFrom(calls.progress_message(event))
        case MilestoneTold(_, task, milestone):
            entry.task = str(task)
            entry.milestone.CopyFrom(message_of(agent_pb2.Milestone, milestone))
        case PolicyTold(_, task, message):
            entry.task, entry.policy = str(task), message
        case SecondPassed():
            entry.second = True


def _event(entry: recording_pb2.Entry, cluster: str) -> Event | None:
    if not is_moment(entry.at):
        raise EntryError("an event has no date")
    match entry.WhichOneof("event"):
        case "second":
            return SecondPassed(entry.at)
        case "frame":
            message = entry.frame.SerializeToString()
            return FrameArrived(entry.at, Task.parse(entry.task), frames.frame(message), message)
        case "link":
            return LinkChanged(
                entry.at, Task.parse(entry.task), link_state(entry.link.state), printable(entry.link.reason)
            )
        case "description":
            entry.description.cluster = entry.description.cluster or cluster
            return AgentDescribed(entry.at, Task.parse(entry.task), calls.description(entry.description))
        case "progress":
            return calls.progress(entry.progress, entry.verb, entry.at)
        case "milestone":
            return MilestoneTold(entry.at, Task.parse(entry.task), calls.milestone(entry.milestone))
        case "policy":
            return PolicyTold(entry.at, Task.parse(entry.task), printable(entry.policy))
    return None
