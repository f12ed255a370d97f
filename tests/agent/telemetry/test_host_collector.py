import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tfscale.agent.telemetry.host_collector import HostCollector


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
