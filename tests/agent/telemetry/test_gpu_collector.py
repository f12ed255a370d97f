import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.agent.telemetry.sampler import Sampler
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task


def test_gpus_are_read_in_base_units() -> None:
    collector = GpuCollector(FakeNvml(FakeGpu(), FakeGpu(name="Other")), period=0.01)
    collector.start()
    first, second = samples_of(collector)
    collector.stop()
    assert (first.index, first.uuid, first.name) == (0, "GPU-fake-0", "Fake H100")
    assert (first.utilisation, first.memory_used, first.power) == (0.87, 20 << 30, 350.0)
    assert (first.clock, first.clock_max, first.clock_event_reasons) == (1_755_000_000, 1_980_000_000, 4)
    assert first.energy == 7.2e6
    assert second.name == "Other"


def test_ways_between_gpus_are_asked_for_at_the_start() -> None:
    collector = GpuCollector(FakeNvml(FakeGpu(peers={1: -1}), FakeGpu(name="Other", peers={0: 50})), period=0.01)
    collector.start()
    samples = samples_of(collector)
    collector.stop()
    assert [gpu.topology for gpu in samples] == ["NVLink with 1", "bus between sockets with 0"]


def test_a_gpus_errors_are_told_of_the_gpu_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.agent.telemetry.gpu_collector._ERROR_SHOWN", 0.3)
    collector = GpuCollector(FakeNvml(FakeGpu(ecc_errors=2), FakeGpu(xids=[13, 48])), period=0.01)
    collector.start()
    first, second = samples_of(collector)
    assert (first.ecc_errors, first.xid) == (2, None)
    assert (second.ecc_errors, second.xid) == (0, 48)
    time.sleep(0.4)
    assert [gpu.xid for gpu in collector.latest()] == [None, None]
    collector.stop()


def test_what_a_gpu_does_not_know_is_absent() -> None:
    unknown = frozenset(
        {"utilisation", "memory_used", "power", "energy", "reasons", "clock_max", "ecc_errors", "xids", "pcie"}
    )
    collector = GpuCollector(FakeNvml(FakeGpu(unknown=unknown)), period=0.01)
    collector.start()
    (sample,) = samples_of(collector)
    collector.stop()
    assert (sample.utilisation, sample.memory_used, sample.power, sample.clock_event_reasons) == (None,) * 4
    assert (sample.ecc_errors, sample.xid, sample.energy) == (None, None, None)
    assert (sample.memory_utilisation, sample.pcie_received, sample.pcie_sent) == (None, None, None)
    assert (sample.nvlinks, sample.nvlinks_up, sample.nvlink_errors, sample.topology) == (None, None, None, "")
    assert sample.temperature == 61


def test_what_moves_over_pcie_and_how_busy_the_memory_is() -> None:
    collector = GpuCollector(FakeNvml(FakeGpu(memory_utilisation=41, pcie=(310_000, 2_100_000))), period=0.01)
    collector.start()
    (sample,) = samples_of(collector)
    collector.stop()
    assert (sample.memory_utilisation, sample.pcie_sent, sample.pcie_received) == (0.41, 310e6, 2.1e9)


def test_counting_on_pcie_takes_long_and_delays_neither_the_agent_nor_the_next_sample() -> None:
    gpus = [FakeGpu(name=f"GPU {index}", pcie_wait=0.02) for index in range(8)]
    collector = GpuCollector(FakeNvml(*gpus), period=0.5)
    spec = parse_cluster({"cluster": "alone"}, name="x", where="x", base=Path.cwd())
    sampler = Sampler(Path.cwd(), spec, Task.parse("worker:0"), collector.latest)
    sampler.start()
    collector.start()
    durations, seen, newest = [], [], ()
    started = time.monotonic()
    while len(seen) < 5:
        begin = time.monotonic()
        sampler.sample(None)
        durations.append(time.monotonic() - begin)
        if sampler.gpus and sampler.gpus is not newest:
            newest = sampler.gpus
            seen.append(time.monotonic())
        time.sleep(0.02)
    sampler.stop()
    collector.stop()
    assert sorted(durations)[len(durations) * 9 // 10] < 0.1, "one sample of the GPUs takes 8 x 2 x 20 ms"
    assert len(newest) == 8
    assert seen[-1] - started > 2.0 and min(later - at for at, later in pairwise(seen)) < 0.75, "one each half second"


def test_links_are_counted_up_and_down_and_their_errors_added() -> None:
    linked = FakeGpu(nvlinks=[True] * 17 + [False], nvlink_errors=2)
    mute = FakeGpu(nvlinks=[True] * 4, unknown=frozenset({"nvlink_errors"}))
    collector = GpuCollector(FakeNvml(linked, mute, FakeGpu()), period=0.01)
    collector.start()
    samples = samples_of(collector)
    collector.stop()
    assert [(gpu.nvlinks, gpu.nvlinks_up, gpu.nvlink_errors) for gpu in samples] == [
        (18, 17, 18 * 3 * 2), (4, 4, None), (None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in dir(FakeNvml) if name.lower().startswith("nvml")])
def test_the_fake_has_what_pynvml_has(name: str) -> None:
    real, fake = getattr(pynvml, name), getattr(FakeNvml, name)
    if isinstance(fake, int):
        assert real == fake or name == "NVML_NVLINK_MAX_LINKS", "of which newer drivers know more"
    else:
        assert callable(real)


def test_without_a_driver_there_are_no_gpus() -> None:
    collector = GpuCollector(FakeNvml(driver=False))
    collector.start()
    collector._thread.join(1)
    assert not collector._thread.is_alive()
    assert collector.latest() == ()


def test_a_driver_that_hangs_blocks_nobody_and_its_last_words_grow_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    nvml = FakeNvml(FakeGpu())
    collector = GpuCollector(nvml, period=0.01)
    collector.start()
    samples_of(collector)
    nvml.nvmlDeviceGetUtilizationRates = lambda _: release.wait(10) and SimpleNamespace(gpu=0, memory=0)  # type: ignore[method-assign]
    time.sleep(0.05)
    monkeypatch.setattr("tfscale.agent.collector_thread._STALE", 0.0)
    assert collector.latest() == ()
    release.set()
    collector.stop()
