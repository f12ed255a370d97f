import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tfscale.agent.collectors.fake_nvml import FakeGpu, FakeNvml
from tfscale.agent.collectors.gpu import GpuCollector
from tfscale.agent.collectors.host import HostCollector
from tfscale.agent.sampler import Sampler
from tfscale.core.records import GpuSample


def wait_for(collector: GpuCollector) -> tuple[GpuSample, ...]:
    for _ in range(200):
        if samples := collector.latest():
            return samples
        time.sleep(0.01)
    raise AssertionError("no sample within 2 s")


def test_a_process_that_a_signal_has_stopped_is_told() -> None:
    collector = HostCollector()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        running = collector.sample(child.pid).task
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        stopped = collector.sample(child.pid).task
    finally:
        child.kill()
        child.wait()
    assert running is not None and stopped is not None
    assert (running.stopped, stopped.stopped) == (0, 1)


def test_rates_are_unknown_in_the_first_sample_and_plausible_in_the_second() -> None:
    collector = HostCollector()
    first = collector.sample(os.getpid())
    assert (first.cpu, first.interfaces, first.throttled) == (None, (), None)
    assert first.task is not None
    assert first.task.cpu is None
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    second = collector.sample(os.getpid())
    assert second.cpu is not None
    assert second.task is not None
    assert 0 < second.cpu <= 1
    assert second.task.cpu is not None
    assert 0.1 < second.task.cpu < 2 * second.cores
    assert 0 < second.memory_used < second.memory_total
    assert "lo" in {interface.name for interface in second.interfaces}


def test_the_tasks_tree_has_its_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    usage = HostCollector().sample(os.getpid()).task
    child.kill()
    child.wait()
    assert usage is not None
    assert usage.processes >= 2
    assert usage.threads >= 2


def test_a_task_that_is_gone_has_no_usage() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert HostCollector().sample(child.pid).task is None
    assert HostCollector().sample(None).task is None


def test_pressure_is_a_ratio_and_absent_where_the_kernel_has_none(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    for name in ("cpu", "io"):
        text = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"
        (tmp_path / "pressure" / name).write_text(text)
    pressure = HostCollector(proc=tmp_path).sample(None).pressure
    assert pressure is not None
    assert (pressure.cpu, pressure.memory, pressure.io) == (0.125, None, 0.125)
    assert HostCollector(proc=tmp_path / "none").sample(None).pressure is None


def test_throttling_of_any_group_above_the_task_counts(tmp_path: Path) -> None:
    pid = os.getpid()
    (tmp_path / "proc" / str(pid)).mkdir(parents=True)
    (tmp_path / "proc" / str(pid) / "cgroup").write_text("1:name=systemd:/\n0::/pod/task\n")
    (tmp_path / "cgroup" / "pod" / "task").mkdir(parents=True)
    stat = tmp_path / "cgroup" / "pod" / "cpu.stat"
    stat.write_text("usage_usec 5\nthrottled_usec 1000000\n")
    collector = HostCollector(tmp_path / "proc", tmp_path / "cgroup")
    begin = time.monotonic()
    assert collector.sample(pid).throttled is None
    time.sleep(0.05)
    stat.write_text("usage_usec 5\nthrottled_usec 1020000\n")
    throttled = collector.sample(pid).throttled
    assert throttled is not None
    assert 0.02 / (time.monotonic() - begin) <= throttled <= 0.4


def test_gpus_are_read_in_base_units() -> None:
    collector = GpuCollector(FakeNvml(FakeGpu(), FakeGpu(name="Other")), period=0.01)
    collector.start()
    first, second = wait_for(collector)
    collector.stop()
    assert (first.index, first.uuid, first.name) == (0, "GPU-fake-0", "Fake H100")
    assert (first.utilisation, first.memory_used, first.power) == (0.87, 20 << 30, 350.0)
    assert (first.clock, first.clock_max, first.clock_event_reasons) == (1_755_000_000, 1_980_000_000, 4)
    assert second.name == "Other"


def test_a_gpus_errors_are_told_of_the_gpu_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.agent.collectors.gpu._ERROR_SHOWN", 0.3)
    collector = GpuCollector(FakeNvml(FakeGpu(ecc_errors=2), FakeGpu(xids=[13, 48])), period=0.01)
    collector.start()
    first, second = wait_for(collector)
    assert (first.ecc_errors, first.xid) == (2, None)
    assert (second.ecc_errors, second.xid) == (0, 48)
    time.sleep(0.4)
    assert [gpu.xid for gpu in collector.latest()] == [None, None]
    collector.stop()


def test_what_a_gpu_does_not_know_is_absent() -> None:
    unknown = frozenset({"utilisation", "memory_used", "power", "reasons", "clock_max", "ecc_errors", "xids"})
    collector = GpuCollector(FakeNvml(FakeGpu(unknown=unknown)), period=0.01)
    collector.start()
    (sample,) = wait_for(collector)
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
    wait_for(collector)
    nvml.nvmlDeviceGetUtilizationRates = lambda _: release.wait(10) and SimpleNamespace(gpu=0)  # type: ignore[method-assign]
    time.sleep(0.05)
    monkeypatch.setattr("tfscale.agent.collectors.gpu._STALE", 0.0)
    assert collector.latest() == ()
    release.set()
    collector.stop()


def test_the_sampler_holds_the_newest_of_both() -> None:
    gpus = GpuCollector(FakeNvml(FakeGpu()), period=0.01)
    sampler = Sampler(gpus=gpus)
    assert (sampler.host, sampler.gpus) == (None, ())
    sampler.start()
    wait_for(gpus)
    sampler.sample(None)
    sampler.stop()
    assert sampler.host is not None
    assert sampler.gpus[0].name == "Fake H100"
