"""A frame that an agent sends is the frame that a console gets."""

from tfscale.agent import wire as agent_wire
from tfscale.console import wire as console_wire
from tfscale.core.records import Exit, Frame, GpuSample, HostSample, Pressure, TaskState, TaskStatus


def test_exits_and_counters_arrive_as_they_were_sent() -> None:
    gpu = GpuSample(1, "GPU-1", "H100", clock_event_reasons=0x44, ecc_errors=3, xid=48)
    healthy = GpuSample(2, "GPU-2", "H100", utilisation=0.5)
    host = HostSample(0.5, 8, 1.0, 1 << 30, 4 << 30, 1 << 20, Pressure(0.25, None, 0.5), throttled=0.125)
    ended = Exit(1, None, 99.0, log=("MemoryError: 64 GiB", "the last line"))
    sent = Frame(7, 100.0, TaskStatus(TaskState.EXITED, 2, 1, 4711, 50.0, ended), host=host, gpus=(gpu, healthy))
    assert console_wire.frame(agent_wire.frame_message(sent)) == sent
