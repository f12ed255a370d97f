"""Protobuf messages to records, one function a message. Beside `entries`, nothing in the console knows protobuf.

What comes a thousand times a second is read by protos/tfscale/v1/arrival.proto, which leaves columns of numbers, and
what is mostly the same or not looked at, as bytes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from tfscale.console.events import CommandProgressed, Profile, Stage
from tfscale.console.gauges import Gauges, gauges_of
from tfscale.console.printable import printable
from tfscale.core.records import (
    Activity,
    ActivityKind,
    Collective,
    Coordinator,
    Counters,
    Description,
    Exit,
    Frame,
    GpuSample,
    HostSample,
    Interface,
    Pressure,
    ProbeState,
    ProbeStatus,
    ServerTraffic,
    StepBatch,
    TaskState,
    TaskStatus,
    TaskUsage,
    Training,
    WorkerFunctions,
)
from tfscale.core.task import Task
from tfscale.core.validation import check_counts, check_steps, check_time, is_moment
from tfscale.core.wire.fields import column, delimited
from tfscale.v1 import agent_pb2, arrival_pb2, report_pb2, telemetry_pb2

_TASK_STATES = {getattr(telemetry_pb2, f"TASK_STATE_{state.name}"): state for state in TaskState}
_PROBE_STATES = {getattr(telemetry_pb2, f"PROBE_STATE_{state.name}"): state for state in ProbeState}
_ACTIVITIES = {getattr(telemetry_pb2, f"ACTIVITY_KIND_{kind.name}"): kind for kind in ActivityKind}
_READ = tuple(each.name for each in arrival_pb2.ArrivingFrame.DESCRIPTOR.fields)
"""Of a frame, when it arrives."""
_SEQUENCE = telemetry_pb2.StepBatch.SEQUENCE_FIELD_NUMBER
_TASKS = 4096
"""Of whom the newest state is remembered as it came, so that the same one need not be read again."""
_STAGES = {getattr(agent_pb2, f"STAGE_{stage.name}"): stage for stage in Stage}
Kind = TypeVar("Kind", bound=Message)


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent's stream tells at once: who it is and its past, or a frame; frames as their bytes."""

    schema_version: int
    description: Description | None = None
    frames: Sequence[bytes] = ()


def reply(data: bytes) -> Reply:
    """What a WatchReply message says. Raises ValueError where it is none."""
    message = _parsed(arrival_pb2.ArrivingReply, data)
    if not message.HasField("snapshot"):
        return Reply(message.schema_version, None, (message.frame,) if message.HasField("frame") else ())
    snapshot = message.snapshot
    return Reply(message.schema_version, description(snapshot.description), tuple(snapshot.recent))


def _parsed(kind: type[Kind], data: bytes) -> Kind:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None


def _known(message: Any, name: str) -> Any:
    """The field's value, None where it is absent, or a number that is none."""
    # Only a zero may stand for what is absent.
    value = getattr(message, name)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value or message.HasField(name) else None


def _said(message: Any, name: str) -> Any:
    """The same; words as they can be shown."""
    value = _known(message, name)
    return printable(value) if isinstance(value, str) else value


def _moment(message: Any, name: str) -> float | None:
    """The field's Unix seconds, None where it is absent or no moment."""
    at: float | None = _known(message, name)
    return at if at is not None and is_moment(at) else None


def description(message: agent_pb2.Description) -> Description:
    return Description(
        version=printable(message.version),
        run=printable(message.run),
        task=printable(message.task),
        lead=printable(message.lead),
        host=printable(message.host),
        cluster=message.cluster,
        command=tuple(map(printable, message.command)),
        log_path=printable(message.log_path),
        generation=message.generation,
        started=message.started,
        pid=message.pid,
    )


def progress(message: agent_pb2.Progress, verb: str, at: float) -> CommandProgressed:
    return CommandProgressed(
        at=at,
        verb=verb,
        stage=_STAGES.get(message.stage, Stage.PLANNED),
        tasks=tuple(Task.parse(name) for name in message.tasks),
        generation=message.generation,
        message=printable(message.message),
    )


def profile(message: agent_pb2.ProfileReply, seconds: float) -> Profile:
    doing = {
        report_pb2.PROFILE_STAGE_ASKED: "asking the process",
        report_pb2.PROFILE_STAGE_CAPTURING: f"capturing for {seconds:g} s",
        report_pb2.PROFILE_STAGE_WRITING: "writing",
        report_pb2.PROFILE_STAGE_WRITTEN: "written",
    }
    return Profile(doing.get(message.stage, "working"), message.folder, message.file, message.bytes)


def progress_message(event: CommandProgressed) -> agent_pb2.Progress:
    stages = {stage: number for number, stage in _STAGES.items()}
    return agent_pb2.Progress(
        stage=stages[event.stage],
        tasks=map(str, event.tasks),
        generation=event.generation,
        message=event.message,
        at=event.at,
    )


class ArrivedCounters(Counters):
    """Host and GPUs that stay bytes: of a thousand tasks, most are not looked at, and those that are take ten times as
    much room."""

    __slots__ = ("_data",)
    _data: bytes

    def __init__(self, data: bytes) -> None:
        """`data` is a Frame message."""
        _set(self, "_data", data)

    @property
    def host(self) -> HostSample | None:
        message = self._message
        return _host(message.host) if message.HasField("host") else None

    @property
    def gpus(self) -> tuple[GpuSample, ...]:
        return tuple(map(_gpu, self._message.gpus))

    @property
    def gauges(self) -> Gauges:
        message = self._message
        return gauges_of(message.host if message.HasField("host") else None, message.gpus, _known)

    @property
    def _message(self) -> telemetry_pb2.Frame:
        return telemetry_pb2.Frame.FromString(self._data)

    def __bool__(self) -> bool:
        return bool(self._data)


class ArrivedFrame(Frame):
    """A frame whose host and GPUs stay bytes until somebody looks."""

    __slots__ = ("_counters", "_is_stopped", "_seen")
    _counters: ArrivedCounters
    _is_stopped: bool
    _seen: Counters | None
    """What was read of them."""

    def __new__(cls, **values: Any) -> Frame:  # type: ignore[misc]  # that is what `dataclasses.replace` shall make
        return Frame(**values)

    @classmethod
    def of(cls, counters: bytes, **values: Any) -> ArrivedFrame:
        """From all fields but `host` and `gpus`, which are in `counters`, a Frame message. Raises ValueError."""
        made = object.__new__(cls)
        for name, value in values.items():
            _set(made, name, value)
        message = _parsed(telemetry_pb2.Frame, counters)
        host = message.host if message.HasField("host") else None
        # What a newer agent says besides is left in them too.
        _set(made, "_counters", ArrivedCounters(counters if host is not None or message.gpus else b""))
        _set(made, "_seen", None)
        _set(made, "_is_stopped", host is not None and host.task.stopped > 0)
        return made

    @property
    def host(self) -> HostSample | None:
        return self._look().host

    @property
    def gpus(self) -> tuple[GpuSample, ...]:
        return self._look().gpus

    def _look(self) -> Counters:
        seen = self._seen
        if seen is None:
            seen = Counters(self._counters.host, self._counters.gpus)
            _set(self, "_seen", seen)
        return seen

    @property
    def counters(self) -> Counters:
        return self._counters

    @property
    def gauges(self) -> Gauges:
        """Of host and GPUs."""
        return self._counters.gauges

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def with_steps(self, steps: tuple[StepBatch, ...]) -> Frame:
        made = object.__new__(ArrivedFrame)
        for name in _KEPT:
            _set(made, name, getattr(self, name))
        _set(made, "steps", steps)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(Frame))

    __hash__ = Frame.__hash__


_set = object.__setattr__
_KEPT = (
    *(each.name for each in fields(Frame) if each.name not in ("host", "gpus", "steps")),
    *ArrivedFrame.__slots__,
)


def frame(data: bytes) -> Frame:
    """What a Frame message says. Raises ValueError where it is none, or says what cannot be."""
    message = _parsed(arrival_pb2.ArrivingFrame, data)
    check_time(message.at)
    return ArrivedFrame.of(
        sequence=message.sequence,
        at=message.at,
        status=_same_status(message.status),
        probe=_same_probe(message.probe) if message.HasField("probe") else None,
        collective=_collective(message.collective) if message.HasField("collective") else None,
        steps=tuple(map(_steps, message.steps)),
        dropped=message.dropped,
        training=_training(message.training) if message.HasField("training") else None,
        activities=tuple(map(_activity, filter(_is_activity, message.activities))),
        coordinator=_coordinator(message.coordinator) if message.HasField("coordinator") else None,
        # The last: it takes the others out of the message.
        counters=_unread(message),
    )


def _unread(message: Message) -> bytes:
    """The host and the GPUs of a frame, as a Frame message."""
    for name in _READ:
        message.ClearField(name)
    return message.SerializeToString()


@lru_cache(maxsize=_TASKS)
def _same_status(data: bytes) -> TaskStatus:
    """Told once a second, and changed once in hours."""
    return task_status(_parsed(telemetry_pb2.TaskStatus, data))


@lru_cache(maxsize=_TASKS)
def _same_probe(data: bytes) -> ProbeStatus:
    return _probe(_parsed(telemetry_pb2.ProbeStatus, data))


def task_status(message: telemetry_pb2.TaskStatus) -> TaskStatus:
    return TaskStatus(
        state=_TASK_STATES.get(message.state, TaskState.PENDING),
        generation=message.generation,
        attempt=message.attempt,
        pid=_known(message, "pid"),
        started=_moment(message, "started"),
        exit=_exit(message.exit) if message.HasField("exit") else None,
        reason=printable(message.reason),
    )


def _exit(message: telemetry_pb2.Exit) -> Exit:
    code, signal = _known(message, "code"), _known(message, "signal")
    check_time(message.at)
    return Exit(code, signal, message.at, message.requested, tuple(map(printable, message.log)))


def _probe(message: telemetry_pb2.ProbeStatus) -> ProbeStatus:
    optional = (
        "strategy",
        "replicas",
        "local_replicas",
        "ranks",
        "reduced_bytes_per_step",
        "examples_per_step",
        "tensorflow",
        "keras",
        "collective",
    )
    return ProbeStatus(
        state=_PROBE_STATES.get(message.state, ProbeState.WAITING),
        message=printable(message.message),
        warnings=tuple(map(printable, message.warnings)),
        checkpoint=_moment(message, "checkpoint"),
        **{name: _said(message, name) for name in optional},
    )


def _collective(message: telemetry_pb2.Collective) -> Collective:
    return Collective(message.entered, message.left, _moment(message, "entered_at"))


def _training(message: telemetry_pb2.Training) -> Training:
    optional = ("epoch", "global_step", "loss", "finite", "learning_rate")
    return Training(**{name: _known(message, name) for name in optional})


def _is_activity(message: telemetry_pb2.Activity) -> bool:
    return message.kind in _ACTIVITIES and is_moment(message.begin) and is_moment(message.end)


def _activity(message: telemetry_pb2.Activity) -> Activity:
    return Activity(_ACTIVITIES[message.kind], message.begin, _known(message, "end"))


def _steps(message: arrival_pb2.ArrivingSteps) -> StepBatch:
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
    )
    check_steps(batch)
    return batch


@lru_cache(maxsize=1024)
def _counts(data: bytes) -> array[int]:
    """`sequence` or `global_step` of a batch. Workers that meet in every step tell the same ones."""
    values = list(_parsed(telemetry_pb2.StepBatch, delimited(_SEQUENCE, data)).sequence)
    check_counts(values)
    return array("Q", values)


def _coordinator(message: telemetry_pb2.Coordinator) -> Coordinator | None:
    """None where what it counts with are no numbers."""
    seconds = [message.waited, *(seconds for each in message.workers for seconds in (each.busy, each.idle))]
    if not (is_moment(message.at) and all(map(math.isfinite, seconds))):
        return None
    return Coordinator(
        at=message.at,
        queued=_known(message, "queued"),
        waited=message.waited,
        waiting_since=_moment(message, "waiting_since"),
        workers=tuple(map(_functions, message.workers)),
    )


def _functions(message: telemetry_pb2.WorkerFunctions) -> WorkerFunctions:
    return WorkerFunctions(
        worker=message.worker,
        finished=message.finished,
        failed=message.failed,
        busy=message.busy,
        idle=message.idle,
        since=_moment(message, "since"),
        traffic=tuple(ServerTraffic(each.server, each.pulled, each.pushed) for each in message.traffic),
    )


def _host(message: telemetry_pb2.HostSample) -> HostSample:
    return HostSample(
        cpu=_known(message, "cpu"),
        cores=message.cores,
        load=_known(message, "load"),
        memory_used=message.memory_used,
        memory_total=message.memory_total,
        swap_used=message.swap_used,
        pressure=_pressure(message.pressure) if message.HasField("pressure") else None,
        interfaces=tuple(_interface(each) for each in message.interfaces if math.isfinite(each.received + each.sent)),
        task=_usage(message.task) if message.HasField("task") else None,
        throttled=_known(message, "throttled"),
    )


def _interface(message: telemetry_pb2.Interface) -> Interface:
    return Interface(message.name, message.received, message.sent, _known(message, "speed"))


def _pressure(message: telemetry_pb2.Pressure) -> Pressure:
    return Pressure(_known(message, "cpu"), _known(message, "memory"), _known(message, "io"))


def _usage(message: telemetry_pb2.TaskUsage) -> TaskUsage:
    return TaskUsage(message.processes, message.threads, _known(message, "cpu"), message.memory, message.stopped)


_OF_GPU = tuple(each.name for each in fields(GpuSample) if each.default is None)
_read_gpu = attrgetter(*_OF_GPU)


def _gpu(message: telemetry_pb2.GpuSample) -> GpuSample:
    read = zip(_OF_GPU, _read_gpu(message), strict=True)
    optional = [value if value and math.isfinite(value) else _known(message, name) for name, value in read]
    return GpuSample(message.index, printable(message.uuid), printable(message.name), *optional)
