"""Records become messages and come back, by the names of their fields alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Disk, GpuSample, HostSample, Interface, Pressure, TaskUsage
from tfscale.core.records.probe_status import Activity, ActivityKind, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.core.wire.convert import Caution, message_of, parsed, record_of
from tfscale.core.wire.fields import WireError
from tfscale.v1 import agent_pb2, telemetry_pb2

FUNCTIONS = WorkerFunctions("worker:0", 7, 0, 1.5, 0.5, 1000.25, (ServerTraffic("ps:0", 4096, 0),))
FRAME = Frame(
    sequence=7,
    at=1000.5,
    status=TaskStatus(TaskState.EXITED, 2, 1, 12, 0.0, Exit(None, 9, 1000.25, log=("a", "b")), "why"),
    probe=ProbeStatus(ProbeState.MEASURING, strategy="MirroredStrategy", replicas=0, warnings=("one",)),
    host=HostSample(
        0.5,
        2,
        None,
        1,
        2,
        0,
        Pressure(0.25, None, 0.0),
        (Interface("eth0", 1.0, 2.0, None),),
        TaskUsage(1, 2, None, 3),
        disk=Disk(0, 4, 0.0, None),
    ),
    gpus=(
        GpuSample(0, "GPU-1", "A100", utilisation=0.5, memory_used=0, nvlinks=18, topology="NVLink with 1"),
        GpuSample(1, "", ""),
    ),
    training=Training(epoch=0, finite=False),
    activities=(Activity(ActivityKind.COMPILE, 999.0), Activity(ActivityKind.IDLE, 1.0, 2.0)),
    coordinator=Coordinator(1000.5, 0, 2.5, None, (FUNCTIONS, replace(FUNCTIONS, since=None, traffic=()))),
)


@dataclass(frozen=True)
class Command:
    """Record with a task in it, as those of commands are."""

    tasks: tuple[Task, ...]
    message: str


def test_a_record_comes_back_and_what_is_unknown_stays_so() -> None:
    message = message_of(telemetry_pb2.Frame, FRAME)
    assert not message.HasField("collective") and not message.training.HasField("loss")
    assert record_of(Frame, telemetry_pb2.Frame.FromString(message.SerializeToString())) == FRAME


def test_a_task_is_a_name_on_the_wire() -> None:
    command = Command((Task.parse("chief:0"), Task.parse("worker:1")), "go")
    message = message_of(agent_pb2.Progress, command)
    assert list(message.tasks) == ["chief:0", "worker:1"]
    assert record_of(Command, message) == command


@pytest.mark.parametrize("number", [0, 99])
def test_a_state_that_is_unknown_is_refused_unless_another_stands_for_it(number: int) -> None:
    message = telemetry_pb2.TaskStatus(state=number)
    with pytest.raises(WireError, match=f"^task state {number} is unknown to this version of tfscale: upgrade it$"):
        record_of(TaskStatus, message)
    caution = Caution(newer={TaskState: TaskState.PENDING})
    assert record_of(TaskStatus, message, caution).state is TaskState.PENDING


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(WireError, match="Error parsing message"):
        parsed(telemetry_pb2.Frame, b"abc")


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e15])
def test_caution_takes_only_numbers_that_are_finite_and_times_that_are_dates(at: float) -> None:
    status = message_of(telemetry_pb2.TaskStatus, TaskStatus(TaskState.RUNNING, started=at, reason="why"))
    training = message_of(telemetry_pb2.Training, Training(loss=at, learning_rate=0.0))
    caution = Caution(text=str.upper, only_plausible=True)
    assert record_of(TaskStatus, status, caution) == TaskStatus(TaskState.RUNNING, reason="WHY")
    assert record_of(Training, training, caution) == Training(loss=at if at == 1e15 else None, learning_rate=0.0)
    assert math.isclose(record_of(TaskStatus, status).started or 0.0, at) or math.isnan(at)


def test_a_text_whose_bytes_are_not_utf_8_is_sent_as_shown() -> None:
    status = TaskStatus(TaskState.LOST, reason="caf\udce9 of \u00fc")
    assert message_of(telemetry_pb2.TaskStatus, status).reason == "caf\\udce9 of \u00fc"
