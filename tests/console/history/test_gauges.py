"""Readings of a host and its GPUs: the same from records and from messages, and unknown where nobody reports them."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.history.gauges import Gauges, gauges_of
from tfscale.console.wire import frames
from tfscale.core.records.host_sample import GpuSample, HostSample, Interface

FIRST = fakes.worker(0)
HOST = HostSample(0.25, 8, None, 1, 2, 0, interfaces=(Interface("a", 1.0, 2.0, None), Interface("b", 10.0, 20.0, None)))
BUSY = GpuSample(0, "GPU-1", "A100", utilisation=1.0, memory_used=10, power=300.0, temperature=60.0, clock=900)
IDLE = GpuSample(1, "GPU-2", "A100", utilisation=0.0, memory_used=0, power=0.0, temperature=0.0, clock=0)
MUTE = GpuSample(2, "GPU-3", "A100")


@pytest.mark.parametrize(
    ("host", "gpus", "said"),
    [
        (None, (), Gauges()),
        (HOST, (), Gauges(cpu=0.25, received=11.0, sent=22.0)),
        (replace(HOST, cpu=None, interfaces=()), (MUTE,), Gauges()),
        (replace(HOST, cpu=0.0, interfaces=()), (BUSY,), Gauges(1.0, 10, 900, 300.0, 60.0, cpu=0.0)),
        (None, (IDLE,), Gauges(0.0, 0, 0, 0.0, 0.0)),
        (None, (BUSY, MUTE, IDLE), Gauges(0.5, 10, 0, 300.0, 60.0)),
    ],
)
def test_of_records_and_of_messages(host: HostSample | None, gpus: tuple[GpuSample, ...], said: Gauges) -> None:
    sent = replace(fakes.frame(FIRST), host=host, gpus=gpus)
    arrived = frames.frame(frames.frame_message(sent).SerializeToString())
    assert isinstance(arrived, frames.ArrivedFrame)
    assert gauges_of(host, gpus, getattr) == arrived.counters.gauges == said
