"""Frames as they arrive, a thousand a second.

They are read by protos/tfscale/v1/arrival.proto. Columns of numbers, parts that seldom change, and the host and its
GPUs, which are seldom read, stay encoded. All else is converted by the names of fields.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from google.protobuf.message import Message
from tfscale.console.history.gauges import Gauges, gauges_of
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import UNHEARD, Counters, G, GpuSample, HostSample, PeerLink
from tfscale.core.records.probe_status import Activity, Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import Coordinator, StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.core.text import printable
from tfscale.core.validation import check_counts, check_steps, check_time, is_moment
from tfscale.core.wire.convert import Caution, message_of, parsed, record_of
from tfscale.core.wire.fields import column, delimited
from tfscale.v1 import arrival_pb2, telemetry_pb2

CAUTION = Caution(
    text=printable,
    only_plausible=True,
    newer={TaskState: TaskState.PENDING, ProbeState: ProbeState.WAITING},
)
_READ = tuple(field.name for field in arrival_pb2.ArrivingFrame.DESCRIPTOR.fields)
"""Fields that are read when a frame arrives."""
_SEQUENCE = telemetry_pb2.StepBatch.SEQUENCE_FIELD_NUMBER
_ACTIVITY_KINDS = telemetry_pb2.ActivityKind.values()[1:]
_TASKS = 4096
"""Tasks whose newest status and training are kept encoded: equal bytes are not read again."""


class ArrivedCounters(Counters):
    """Counters that are decoded at each reading.

    Decoded they take ten times the memory, and few of a thousand tasks are looked at.
    """

    __slots__ = ("_data",)
    _data: bytes

    def __init__(self, data: bytes) -> None:
        """Keep `data`, a Frame message of host and GPUs, or empty."""
        _set(self, "_data", data)

    @property
    def host(self) -> HostSample | None:
        message = self._message
        return _host(message.host) if message.HasField("host") else None

    @property
    def gpus(self) -> tuple[GpuSample, ...]:
        return self.gpus_as(GpuSample)

    def gpus_as(self, kind: type[G]) -> tuple[G, ...]:
        return tuple([record_of(kind, gpu, CAUTION) for gpu in self._message.gpus])

    @property
    def gauges(self) -> Gauges:
        message = self._message
        return gauges_of(message.host if message.HasField("host") else None, message.gpus, _known_value)

    @property
    def _message(self) -> telemetry_pb2.Frame:
        return telemetry_pb2.Frame.FromString(self._data)

    def __bool__(self) -> bool:
        return bool(self._data)


class ArrivedFrame(Frame):
    """Frame whose host and GPUs are decoded at their first reading.

    Until then their slots are empty, and Python calls `__getattr__` for an empty slot.
    """

    __slots__ = ("cores", "counters", "gpu_count", "is_held", "is_stopped", "link_use", "misses_neighbour")
    cores: float | None
    counters: Counters
    gpu_count: int
    is_held: bool
    is_stopped: bool
    link_use: float | None
    misses_neighbour: bool

    # A frozen record is filled by calls, in which a thousand frames a second would spend a tenth of their cost.
    __setattr__ = object.__setattr__

    def __getattr__(self, name: str) -> Any:
        # A frame that `dataclasses.replace` has made holds the fields alone, and not what is made of them.
        value = getattr(self.counters if name in ("host", "gpus") else super(), name)
        setattr(self, name, value)
        return value

    def with_steps(self, steps: tuple[StepBatch, ...]) -> Frame:
        made: Any = object.__new__(ArrivedFrame)
        for name, value in zip(_COPIED, _copied(self), strict=True):
            setattr(made, name, value)
        made.steps = steps
        return made  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in fields(Frame))

    __hash__ = Frame.__hash__


_set = object.__setattr__
_COPIED = (
    *(field.name for field in fields(Frame) if field.name not in ("host", "gpus", "steps")),
    *ArrivedFrame.__slots__,
)


_copied = attrgetter(*_COPIED)


def frame(data: bytes) -> Frame:
    """Return the frame in a Frame message. Raises ValueError where there is none, or its values make no sense."""
    message = parsed(arrival_pb2.ArrivingFrame, data)
    check_time(message.at)
    made: Any = object.__new__(ArrivedFrame)
    made.sequence, made.at, made.dropped = message.sequence, message.at, message.dropped
    made.status = _status(message.status)
    made.probe = _probe(message.probe) if message.HasField("probe") else None
    made.collective = record_of(Collective, message.collective, CAUTION) if message.HasField("collective") else None
    made.steps = tuple(map(_steps, message.steps))
    made.training = _training(message.training) if message.HasField("training") else None
    made.activities = tuple([record_of(Activity, each, CAUTION) for each in message.activities if _is_activity(each)])
    made.coordinator = _coordinator(message.coordinator) if message.HasField("coordinator") else None
    # The last: the fields above are taken out of the message.
    _set_counters(made, message)
    return made  # type: ignore[no-any-return]


def frame_gauges(frame: Frame | None) -> Gauges:
    """Return the gauges of the frame's host and GPUs, all unknown without a frame."""
    if frame is None:
        return Gauges()
    counters = frame.counters
    return (
        counters.gauges if isinstance(counters, ArrivedCounters) else gauges_of(counters.host, counters.gpus, getattr)
    )


def frame_message(record: Frame) -> telemetry_pb2.Frame:
    return message_of(telemetry_pb2.Frame, record)


def _set_counters(made: Any, message: Message) -> None:
    for name in _READ:
        message.ClearField(name)
    data = message.SerializeToString()
    rest = parsed(telemetry_pb2.Frame, data)
    host, usage = rest.host, rest.host.task
    # Fields that a newer agent has added are left, too: they are no counters.
    made.counters = ArrivedCounters(data if rest.HasField("host") or rest.gpus else b"")
    made.cores = _known_value(usage, "cpu")
    made.gpu_count = len(rest.gpus)
    made.is_held = bool(usage.traced or usage.blocked or usage.frozen or usage.stands_at)
    made.is_stopped = usage.stopped > 0
    reached = [each.reached for each in host.neighbours if each.HasField("reached")]
    made.misses_neighbour = bool(reached) and made.at - min(reached) > UNHEARD
    made.link_use = max([link.busy for link in host.links], default=None)


@lru_cache(maxsize=_TASKS)
def _status(data: bytes) -> TaskStatus:
    """Return the status in these bytes, cached: it changes once in hours."""
    status = record_of(TaskStatus, parsed(telemetry_pb2.TaskStatus, data), CAUTION)
    if status.exit is not None:
        check_time(status.exit.at)
    return status


@lru_cache(maxsize=_TASKS)
def _probe(data: bytes) -> ProbeStatus:
    return record_of(ProbeStatus, parsed(telemetry_pb2.ProbeStatus, data), CAUTION)


@lru_cache(maxsize=_TASKS)
def _training(data: bytes) -> Training:
    """Return the training in these bytes, cached: workers that train one model log the same numbers."""
    return record_of(Training, parsed(telemetry_pb2.Training, data), CAUTION)


def _is_activity(message: telemetry_pb2.Activity) -> bool:
    """Decide whether this version knows the activity's kind, and its times are dates."""
    return message.kind in _ACTIVITY_KINDS and is_moment(message.begin) and is_moment(message.end)


def _steps(message: telemetry_pb2.PackedSteps) -> StepBatch:
    batch = StepBatch(
        generation=message.generation,
        attempt=message.attempt,
        reporter=message.reporter,
        subject=message.subject,
        sequence=_counts(message.sequence),
        end=column("d", message.end),
        global_step=_counts(message.global_step),
        update=column("f", message.update),
        host=column("f", message.host),
        input=column("f", message.input),
        compute=column("f", message.compute),
        reduce=column("f", message.reduce),
        lost=message.lost,
        clamped=message.clamped,
        pull=column("f", message.pull),
        part=message.part,
    )
    check_steps(batch)
    return batch


@lru_cache(maxsize=1024)
def _counts(data: bytes) -> array[int]:
    """Return `sequence` or `global_step` of a batch, cached: workers that meet in every step send the same bytes."""
    values = list(parsed(telemetry_pb2.StepBatch, delimited(_SEQUENCE, data)).sequence)
    check_counts(values)
    return array("Q", values)


def _coordinator(message: telemetry_pb2.Coordinator) -> Coordinator | None:
    """Return the coordinator's state, None where its time is not a date or its seconds are not finite."""
    seconds = [message.waited, *(spent for worker in message.workers for spent in (worker.busy, worker.idle))]
    if not (is_moment(message.at) and all(map(math.isfinite, seconds))):
        return None
    return record_of(Coordinator, message, CAUTION)


def _host(message: telemetry_pb2.HostSample) -> HostSample:
    """Return the host without the interfaces and the links whose rates are not finite."""
    host = record_of(HostSample, message, CAUTION)
    interfaces = tuple(interface for interface in host.interfaces if math.isfinite(interface.received + interface.sent))
    links = tuple(link for link in host.links if _is_finite(link))
    is_whole = len(interfaces) + len(links) == len(host.interfaces) + len(host.links)
    return host if is_whole else replace(host, interfaces=interfaces, links=links)


def _is_finite(link: PeerLink) -> bool:
    numbers = (link.sent, link.received, link.busy, link.held, link.round_trip, link.delivery_rate)
    return all(map(math.isfinite, numbers))


def _known_value(message: Any, name: str) -> Any:
    """Return the value of a field, None where it is absent or not finite."""
    value = getattr(message, name)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Only a zero may stand for an absent value: HasField is asked of few.
    return value if value or message.HasField(name) else None
