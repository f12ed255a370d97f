import threading
import time
from types import SimpleNamespace

import pytest
from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.telemetry.gpu_collector import GpuCollector


def test_gpus_are_read_in_base_units() -> None:
    collector = GpuCollector(FakeNvml(FakeGpu(), FakeGpu(name="Other")), period=0.01)
    collector.start()
    first, second = samples_of(collector)
    collector.stop()
    assert (first.index, first.uuid, first.name) == (0, "GPU-fake-0", "Fake H100")
    assert (first.utilisation, first.memory_used, first.power) == (0.87, 20 << 30, 350.0)
    assert (first.clock, first.clock_max, first.clock_event_reasons) == (1_755_000_000, 1_980_000_000, 4)
    assert second.name == "Other"


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
    unknown = frozenset({"utilisation", "memory_used", "power", "reasons", "clock_max", "ecc_errors", "xids"})
    collector = GpuCollector(FakeNvml(FakeGpu(unknown=unknown)), period=0.01)
    collector.start()
    (sample,) = samples_of(collector)
    collector.stop()
    assert (sample.utilisation, sample.memory_used, sample.power, sample.clock_event_reasons) == (None,) * 4
    assert (sample.ecc_errors, sample.xid) == (None, None)
    assert sample.temperature == 61


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
    nvml.nvmlDeviceGetUtilizationRates = lambda _: release.wait(10) and SimpleNamespace(gpu=0)  # type: ignore[method-assign]
    time.sleep(0.05)
    monkeypatch.setattr("tfscale.agent.telemetry.collector_thread._STALE", 0.0)
    assert collector.latest() == ()
    release.set()
    collector.stop()
