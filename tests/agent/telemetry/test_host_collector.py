import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tfscale.agent.telemetry.host_collector import HostCollector


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc with the files alone that every Linux has."""
    (tmp_path / "proc").mkdir()
    for name in ("stat", "meminfo", "net"):
        (tmp_path / "proc" / name).symlink_to(Path("/proc", name))
    return tmp_path / "proc"


def test_a_sample_has_the_counters_of_psutil() -> None:
    collector = HostCollector()
    moments: list[float] = []
    counters: list[Any] = []
    for _ in range(2):
        for sampled in (False, True):
            moments.append(time.monotonic())
            counters.append(psutil.net_io_counters(pernic=True, nowrap=False))
            if not sampled:
                sample = collector.sample(None)
        time.sleep(0.1)
    memory = psutil.virtual_memory()
    assert sample.memory_total == memory.total
    assert sample.memory_used == pytest.approx(memory.used, abs=memory.total / 10)
    assert sample.swap_used == pytest.approx(psutil.swap_memory().used, abs=memory.total / 10)
    used = {name for name, count in counters[0].items() if count.bytes_recv or count.bytes_sent}
    assert {interface.name for interface in sample.interfaces} == used
    for interface in sample.interfaces:
        received = [count[interface.name].bytes_recv for count in counters]
        assert received[2] - received[1] <= interface.received * (moments[3] - moments[0])
        assert interface.received * (moments[2] - moments[1]) <= received[3] - received[0]


def test_usage_of_a_tree_is_that_of_psutil() -> None:
    program = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            usage, process = HostCollector().sample(child.pid).task, psutil.Process(child.pid)
            assert usage is not None
            assert (usage.processes, usage.threads) == (1, process.num_threads()) == (1, 2)
            assert usage.memory == process.memory_info().rss
        finally:
            child.kill()


def test_a_process_of_a_later_start_counts_anew(proc: Path) -> None:
    collector = HostCollector(proc)
    (proc / "7").mkdir()
    (proc / "7" / "statm").write_text("9 5 1 1 0 1 0\n")
    for started, ticks, cores in ((100, 200, None), (100, 300, True), (400, 10, None)):
        words = ["S", "1", *["0"] * 9, str(ticks), "0", "0", "0", "20", "0", "3", "0", str(started), "1", "1"]
        (proc / "7" / "stat").write_text(f"7 (a (name) with) {' '.join(words)}\n")
        usage = collector.sample(7).task
        assert usage is not None
        assert (usage.processes, usage.threads, usage.memory) == (1, 3, 5 * os.sysconf("SC_PAGE_SIZE"))
        assert (usage.cpu is not None and usage.cpu > 0) is (cores is True)
        time.sleep(0.01)


def test_children_that_start_and_end_are_found_at_the_next_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.agent.telemetry.host_collector._REFRESH", 0.0)
    collector = HostCollector()
    children: list[subprocess.Popen[bytes]] = []
    for starts in (True, True, False, True, False, False):
        if starts:
            children.append(subprocess.Popen(["sleep", "60"]))
        else:
            with children.pop(0) as child:
                child.kill()
        usage = collector.sample(os.getpid()).task
        assert usage is not None
        assert usage.processes == 1 + len(psutil.Process().children(recursive=True))


def test_memory_that_is_available_is_never_more_than_a_container_has(proc: Path) -> None:
    (proc / "meminfo").unlink()
    meminfo = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: {} kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"
    (proc / "meminfo").write_text(meminfo.format(400))
    collector = HostCollector(proc)
    sample = collector.sample(None)
    assert (sample.memory_used, sample.memory_total, sample.swap_used) == (600 << 10, 1000 << 10, 30 << 10)
    (proc / "meminfo").write_text(meminfo.format(4000))
    assert collector.sample(None).memory_used == 700 << 10


def test_files_that_stay_open_are_closed_with_their_collector() -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    collector = HostCollector()
    collector.sample(os.getpid())
    opened = open_files()
    for _ in range(3):
        collector.sample(os.getpid())
    assert open_files() == opened
    del collector
    assert open_files() < opened


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
    collector, begin = HostCollector(), time.monotonic()
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
    # The kernel counts in ticks of 10 ms.
    assert 0.08 / (time.monotonic() - begin) < second.task.cpu < 2 * second.cores
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


def test_pressure_is_a_ratio_and_absent_where_the_kernel_has_none(proc: Path) -> None:
    assert HostCollector(proc).sample(None).pressure is None
    (proc / "pressure").mkdir()
    for name in ("cpu", "io"):
        text = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"
        (proc / "pressure" / name).write_text(text)
    pressure = HostCollector(proc).sample(None).pressure
    assert pressure is not None
    assert (pressure.cpu, pressure.memory, pressure.io) == (0.125, None, 0.125)


@pytest.mark.parametrize(
    ("line", "folder", "counter", "unit"),
    [
        ("0::/pod/task", "", "throttled_usec", 10**6),
        ("4:cpu,cpuacct:/pod/task", "cpu,cpuacct", "throttled_time", 10**9),
    ],
    ids=["v2", "v1"],
)
def test_throttling_of_any_group_above_the_task_counts(
    tmp_path: Path, proc: Path, line: str, folder: str, counter: str, unit: int
) -> None:
    pid = os.getpid()
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(f"1:name=systemd:/\n{line}\n")
    (tmp_path / "cgroup" / folder / "pod" / "task").mkdir(parents=True)
    stat = tmp_path / "cgroup" / folder / "pod" / "cpu.stat"
    stat.write_text(f"nr_periods 5\n{counter} {unit}\n")
    collector = HostCollector(proc, tmp_path / "cgroup")
    begin = time.monotonic()
    assert collector.sample(pid).throttled is None
    time.sleep(0.05)
    stat.write_text(f"nr_periods 5\n{counter} {unit * 102 // 100}\n")
    throttled = collector.sample(pid).throttled
    assert throttled is not None
    assert 0.02 / (time.monotonic() - begin) <= throttled <= 0.4


@pytest.mark.skipif(os.cpu_count() == 1, reason="one CPU cannot be divided")
def test_a_task_that_may_run_on_some_cpus_alone_has_their_number() -> None:
    collector = HostCollector()
    bound = [sys.executable, "-c", "import os, time; os.sched_setaffinity(0, {0}); print(flush=True); time.sleep(60)"]
    with subprocess.Popen(bound, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        usage = collector.sample(process.pid).task
        process.kill()
    assert usage is not None and usage.granted == 1
    own = collector.sample(os.getpid()).task
    assert own is not None and own.granted in (None, len(os.sched_getaffinity(0)))
