"""Messages read as the records that were written, also where next to nothing is known."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace

import fakes
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tfscale.console.wire import frames
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Disk, GpuSample, HostSample, Interface, Pressure, TaskUsage
from tfscale.core.records.probe_status import Activity, ActivityKind
from tfscale.core.records.step_batch import Coordinator, StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.v1 import agent_pb2, arrival_pb2, telemetry_pb2

FIRST = fakes.worker(0)


def through(frame: Frame) -> Frame:
    """Return the frame as the console reads it after the agent has written it."""
    return frames.frame(frames.frame_message(frame).SerializeToString())


def test_a_full_frame_comes_through() -> None:
    gpu = GpuSample(0, "GPU-1", "A100", 0.5, 1, 2, 300.0, 400.0, 61.0, 0, 1, 0)
    whole = replace(
        fakes.frame(FIRST),
        host=None,
        gpus=(gpu, GpuSample(1, "", "")),
        training=Training(0, 0, 0.5, True, 0.25),
        activities=(Activity(ActivityKind.COMPILE, 1.0, None), Activity(ActivityKind.IDLE, 1.0, 2.0)),
        dropped=3,
    )
    assert through(whole) == whole


def test_the_least_that_an_agent_can_say_comes_through() -> None:
    least = Frame(0, 1.0, TaskStatus(TaskState.PENDING))
    assert through(least) == least


def test_host_and_gpus_are_there_when_somebody_looks_and_stay_where_steps_go() -> None:
    usage = TaskUsage(processes=2, threads=8, cpu=None, memory=1, stopped=1)
    host = HostSample(0.5, 4, None, 1, 2, 0, task=usage)
    sent = replace(fakes.frame(FIRST), host=host, gpus=(GpuSample(0, "GPU-1", "A100", xid=79),))
    for frame in (through(sent), through(sent).with_steps(())):
        assert (frame.host, frame.gpus, bool(frame.counters), frame.is_stopped) == (host, sent.gpus, True, True)
    assert replace(through(sent), host=None) == replace(sent, host=None)
    bare = through(replace(sent, host=None, gpus=()))
    assert (bare.host, bare.gpus, bool(bare.counters), bare.is_stopped) == (None, (), False, False)


def test_what_a_newer_agent_says_besides_is_no_counter() -> None:
    sent = replace(fakes.frame(FIRST), host=None, gpus=())
    newer = frames.frame_message(sent).SerializeToString() + b"\xfa\x07\x01x"
    read = frames.frame(newer)
    assert read == sent and not read.counters


@pytest.mark.parametrize("sequence", [[], [7], [7, 8, 9], [7, 9, 10], [300, 1 << 40]])
def test_columns_of_any_length_and_with_gaps(sequence: list[int]) -> None:
    count = len(sequence)
    column = array("f", [0.25 * index for index in range(count)])
    batch = StepBatch(
        generation=1 << 40,
        attempt=3,
        reporter="chief:0",
        subject="worker:1/replica:0",
        sequence=array("Q", sequence),
        end=array("d", [1.8e9 + index for index in range(count)]),
        global_step=array("Q"),
        compute=column,
        reduce=column,
        lost=300,
        clamped=1,
    )
    frame = replace(fakes.frame(FIRST), host=None, steps=(batch,) * 2)
    assert through(frame) == frame


def test_an_unknown_number_stays_one() -> None:
    sent = replace(fakes.frame(FIRST), steps=(StepBatch(1, 1, str(FIRST), str(FIRST), [1], [2.0], compute=[math.nan]),))
    (batch,) = through(sent).steps
    assert math.isnan(batch.compute[0])


def test_exits_and_counters_arrive_as_they_were_sent() -> None:
    gpu = GpuSample(1, "GPU-1", "H100", clock_event_reasons=0x44, ecc_errors=3, xid=48)
    healthy = GpuSample(
        2, "GPU-2", "H100", utilisation=0.5, memory_utilisation=0.25, pcie_received=2e9, pcie_sent=0.0, nvlinks=18,
        nvlinks_up=0, nvlink_errors=1 << 40, topology="NVLink with 1",
    )  # fmt: skip
    host = HostSample(
        0.5, 8, 1.0, 1 << 30, 4 << 30, 1 << 20, Pressure(0.25, None, 0.5), throttled=0.125, disk=Disk(0, 9, 0.5)
    )
    ended = Exit(1, None, 99.0, log=("MemoryError: 64 GiB", "the last line"))
    sent = Frame(7, 100.0, TaskStatus(TaskState.EXITED, 2, 1, 4711, 50.0, ended), host=host, gpus=(gpu, healthy))
    assert through(sent) == sent


@pytest.mark.parametrize(
    "damaged", [b"\xff", b"\x07", b"\x42\x7f", b"hello", b"\x3a\x03\x12\x01\xff", b"\x42\x03\x2a\x01\xff"]
)
def test_what_is_cut_off_or_no_message_is_said_to_be(damaged: bytes) -> None:
    whole = frames.frame_message(replace(fakes.frame(FIRST), host=None)).SerializeToString()
    for data in (damaged, whole[:-1], whole + damaged):
        with pytest.raises(ValueError, match=r"."):
            frames.frame(data)


STEPS = fakes.steps(FIRST)


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": math.nan},
        {"at": 1e300},
        {"steps": (replace(STEPS, subject="garbage"),)},
        {"steps": (replace(STEPS, compute=array("f", [0.1])),)},
        {"steps": (replace(STEPS, sequence=array("Q", [1, 2, 1 << 63])),)},
        {"status": TaskStatus(TaskState.EXITED, exit=Exit(1, None, math.inf))},
    ],
)
def test_what_no_agent_can_mean_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        through(replace(fakes.frame(FIRST), **wrong))


def test_steps_in_no_order_stay_as_they_were_sent() -> None:
    sent = replace(fakes.frame(FIRST), steps=(replace(STEPS, sequence=array("Q", [0, 5, 2])),))
    assert list(through(sent).steps[0].sequence) == [0, 5, 2]


def test_what_is_no_number_or_no_moment_is_unknown() -> None:
    host = HostSample(
        math.nan,
        8,
        math.inf,
        1,
        2,
        0,
        interfaces=(Interface("eth0", math.nan, 1.0, None), Interface("eth1", 2.0, 1.0, None)),
    )
    sent = replace(
        fakes.frame(FIRST, of=TaskStatus(TaskState.RUNNING, started=math.nan)),
        host=host,
        gpus=(GpuSample(0, "GPU-1", "H100", utilisation=math.nan, clock=0),),
        training=Training(loss=math.inf, finite=True),
        activities=(Activity(ActivityKind.IDLE, math.nan), Activity(ActivityKind.IDLE, 1.0, math.inf)),
        coordinator=Coordinator(1.0, None, math.nan),
    )
    read = through(sent)
    assert read.status.started is None and read.training is not None and read.training.loss is None
    assert (read.activities, read.coordinator) == ((), None)
    assert read.host == replace(host, cpu=None, load=None, interfaces=host.interfaces[1:])
    assert (read.gpus[0].utilisation, read.gpus[0].clock) == (None, 0)


@pytest.mark.parametrize("number", [b"\x0a\x00", b"\x0a" + b"\x01" + b"\xff", b"\x08" + b"\xff" * 4_000_000])
def test_numbers_that_are_none_or_never_end_are_refused_at_once(number: bytes) -> None:
    batch = b"\x42" + bytes([len(number)]) + number if len(number) < 128 else number
    with pytest.raises(ValueError, match=r"."):
        frames.frame(batch)


ARRIVING = {
    arrival_pb2.ArrivingReply: agent_pb2.WatchReply,
    arrival_pb2.ArrivingSnapshot: agent_pb2.Snapshot,
    arrival_pb2.ArrivingFrame: telemetry_pb2.Frame,
    telemetry_pb2.PackedSteps: telemetry_pb2.StepBatch,
}


@pytest.mark.parametrize("arriving", ARRIVING, ids=lambda kind: kind.DESCRIPTOR.name)
def test_what_arrives_is_read_by_the_numbers_and_types_with_which_it_is_written(arriving: type[Message]) -> None:
    read, written = fields_of(arriving), fields_of(ARRIVING[arriving])
    if arriving is arrival_pb2.ArrivingFrame:
        assert (written.pop(6)[0], written.pop(7)[0]) == ("host", "gpus")
    assert read == written


def fields_of(kind: type[Message]) -> dict[int, tuple[str, bool]]:
    """Return name and kind of each field by its number: columns of numbers begin with their length on the wire."""
    empty = kind()
    return {
        field.number: (field.name, field.type in LONG or hasattr(getattr(empty, field.name), "append"))
        for field in kind.DESCRIPTOR.fields
    }


LONG = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING)
