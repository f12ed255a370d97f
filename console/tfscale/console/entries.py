"""Events as the entries of a recording, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError
from tfscale.console import wire
from tfscale.console.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    SecondPassed,
)
from tfscale.core.errors import UsageError
from tfscale.core.records import SCHEMA_VERSION, ActivityKind, ProbeState, TaskState
from tfscale.core.task import Task
from tfscale.core.wire.fields import delimited
from tfscale.v1 import recording_pb2, telemetry_pb2

_PREFIXES = {TaskState: "TASK_STATE", ProbeState: "PROBE_STATE", ActivityKind: "ACTIVITY_KIND"}
_NUMBERS: dict[Enum, int] = {
    state: getattr(telemetry_pb2, f"{prefix}_{state.name}") for kind, prefix in _PREFIXES.items() for state in kind
}

_ENTRIES = recording_pb2.Entries.ENTRIES_FIELD_NUMBER
_FRAME = recording_pb2.Entry.FRAME_FIELD_NUMBER


class EntryError(ValueError):
    """Bytes that hold no entries."""


def encode(events: Iterable[Event], cluster: str) -> bytes:
    """Events in their order as one `Entries` message, without the `cluster` that agents describe and all know."""
    return b"".join(delimited(_ENTRIES, _entry(event, cluster)) for event in events)


def decode(data: bytes, cluster: str) -> list[Event]:
    """The events of an `Entries` message; kinds that a newer console has added are left out. Raises EntryError."""
    try:
        entries = recording_pb2.Entries.FromString(data)
        return [event for entry in entries.entries if (event := _event(entry, cluster)) is not None]
    except (DecodeError, UsageError, ValueError) as error:
        raise EntryError(str(error)) from None


def _entry(event: Event, cluster: str) -> bytes:
    entry = recording_pb2.Entry(at=event.at)
    if isinstance(event, FrameArrived) and event.message is not None:
        # What came as bytes goes as bytes: a thousand frames a second are not worth reading and writing again.
        entry.task = str(event.task)
        return entry.SerializeToString() + delimited(_FRAME, event.message)
    _fill(entry, event, cluster)
    return entry.SerializeToString()


def _fill(entry: recording_pb2.Entry, event: Event, cluster: str) -> None:
    match event:
        case FrameArrived(_, task, frame):
            entry.task = str(task)
            fill(entry.frame, frame)
        case AgentDescribed(_, task, description):
            entry.task = str(task)
            fill(entry.description, description)
            entry.description.schema_version = SCHEMA_VERSION
            if description.cluster == cluster:
                entry.description.ClearField("cluster")
        case LinkChanged(_, task, state, reason):
            entry.task = str(task)
            entry.link.state, entry.link.reason = state, reason
        case CommandProgressed():
            entry.verb = event.verb
            entry.progress.CopyFrom(wire.progress_message(event))
        case SecondPassed():
            entry.second = True


def _event(entry: recording_pb2.Entry, cluster: str) -> Event | None:
    match entry.WhichOneof("event"):
        case "second":
            return SecondPassed(entry.at)
        case "frame":
            message = entry.frame.SerializeToString()
            return FrameArrived(entry.at, Task.parse(entry.task), wire.frame(message), message)
        case "link":
            return LinkChanged(entry.at, Task.parse(entry.task), LinkState(entry.link.state), entry.link.reason)
        case "description":
            entry.description.cluster = entry.description.cluster or cluster
            return AgentDescribed(entry.at, Task.parse(entry.task), wire.description(entry.description))
        case "progress":
            return wire.progress(entry.progress, entry.verb, entry.at)
    return None


def fill(message: Any, record: Any) -> None:
    """Write a record into the message that has the same fields under the same names; None stays absent."""
    for name in _names(type(record)):  # type: ignore[arg-type]  # mypy takes a class for unhashable
        value = getattr(record, name)
        if value is None:
            continue
        if isinstance(value, Enum):
            setattr(message, name, _NUMBERS[value])
        elif is_dataclass(value):
            fill(getattr(message, name), value)
            getattr(message, name).SetInParent()
        elif isinstance(value, Sequence) and not isinstance(value, str):
            _extend(getattr(message, name), value)
        else:
            setattr(message, name, value)


def _extend(field: Any, values: Sequence[Any]) -> None:
    if len(values) and is_dataclass(values[0]):
        for value in values:
            fill(field.add(), value)
    else:
        field.extend(values)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
