"""Collector of the host's counters from psutil and /proc: CPU, memory, pressure, network, the task's process tree."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import psutil
from tfscale.core.records import HostSample, Interface, Pressure, TaskUsage

_REFRESH = 5.0
"""Seconds after which the task's processes and the interfaces' speeds are listed again, which is expensive."""


class HostCollector:
    """Collector of the host's counters. Rates count from the previous sample, and are None in the first one."""

    def __init__(self, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc = proc
        self._cpu: tuple[float, float] | None = None
        self._network = _Network()
        self._tree = _ProcessTree()
        self._throttle = _Throttle(proc, cgroups)

    def sample(self, task_pid: int | None) -> HostSample:
        """Sample the host, and the process tree of `task_pid` if that process is alive."""
        now = time.monotonic()
        memory, swap = psutil.virtual_memory(), _swap_used()
        return HostSample(
            cpu=self._cpu_ratio(),
            cores=os.cpu_count() or 1,
            load=os.getloadavg()[0],
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            swap_used=swap,
            pressure=self._pressure(),
            interfaces=self._network.sample(now),
            task=self._tree.sample(now, task_pid),
            throttled=self._throttle.sample(now, task_pid),
        )

    def _cpu_ratio(self) -> float | None:
        times = psutil.cpu_times()
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        busy = total - times.idle - getattr(times, "iowait", 0.0)
        before, self._cpu = self._cpu, (busy, total)
        if before is None or total <= before[1]:
            return None
        return min(1.0, max(0.0, (busy - before[0]) / (total - before[1])))

    def _pressure(self) -> Pressure | None:
        cpu, memory, io = (_some_avg10(self._proc / "pressure" / name) for name in ("cpu", "memory", "io"))
        return None if cpu is memory is io is None else Pressure(cpu, memory, io)


class _Network:
    """Bytes per second of each interface."""

    def __init__(self) -> None:
        self._before: tuple[float, Mapping[str, tuple[int, int]]] | None = None
        self._speeds: dict[str, float | None] = {}
        self._asked = -_REFRESH

    def sample(self, now: float) -> tuple[Interface, ...]:
        counters = {
            name: (count.bytes_recv, count.bytes_sent)
            for name, count in psutil.net_io_counters(pernic=True, nowrap=False).items()
            if count.bytes_recv or count.bytes_sent
        }
        before, self._before = self._before, (now, counters)
        if before is None or now <= before[0]:
            return ()
        if now - self._asked >= _REFRESH:
            self._asked, self._speeds = now, _speeds()
        seconds = now - before[0]
        return tuple(
            Interface(name, (received - old[0]) / seconds, (sent - old[1]) / seconds, self._speeds.get(name))
            for name, (received, sent) in counters.items()
            if (old := before[1].get(name)) is not None and received >= old[0] and sent >= old[1]
        )


class _ProcessTree:
    """Usage of a task's process and its descendants."""

    def __init__(self) -> None:
        self._root: psutil.Process | None = None
        self._members: list[psutil.Process] = []
        self._listed = 0.0
        self._before: tuple[float, dict[int, float]] | None = None

    def sample(self, now: float, pid: int | None) -> TaskUsage | None:
        if pid is None or not self._list(now, pid):
            return None
        seconds: dict[int, float] = {}
        threads = memory = stopped = 0
        for process in self._members:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    seconds[process.pid] = times.user + times.system
                    threads += process.num_threads()
                    memory += process.memory_info().rss
                    stopped += process.status() == psutil.STATUS_STOPPED
            except psutil.Error:
                continue
        before, self._before = self._before, (now, seconds)
        return TaskUsage(len(seconds), threads, _cores(before, now, seconds), memory, stopped) if seconds else None

    def _list(self, now: float, pid: int) -> bool:
        if self._root is not None and self._root.pid == pid and now - self._listed < _REFRESH:
            return True
        try:
            if self._root is None or self._root.pid != pid or not self._root.is_running():
                self._root, self._before = psutil.Process(pid), None
            self._members = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            self._root, self._members = None, []
            return False
        self._listed = now
        return True


def _cores(before: tuple[float, dict[int, float]] | None, now: float, seconds: dict[int, float]) -> float | None:
    if before is None or now <= before[0]:
        return None
    used = sum(value - before[1][pid] for pid, value in seconds.items() if pid in before[1])
    return max(0.0, used / (now - before[0]))


class _Throttle:
    """Share of time in which cgroup v2 throttled the task's group or one above it: a limit anywhere slows the task."""

    def __init__(self, proc: Path, cgroups: Path) -> None:
        self._proc, self._root = proc, cgroups
        self._pid: int | None = None
        self._files: list[Path] = []
        self._before: tuple[float, list[int | None]] | None = None

    def sample(self, now: float, pid: int | None) -> float | None:
        if pid != self._pid:
            self._pid, self._before = pid, None
            self._files = [] if pid is None else self._stat_files(pid)
        values = [_throttled_usec(path) for path in self._files]
        before, self._before = self._before, (now, values)
        if before is None or now <= before[0]:
            return None
        throttled = [
            new - old for new, old in zip(values, before[1], strict=True) if new is not None and old is not None
        ]
        return max(throttled) / 1e6 / (now - before[0]) if throttled else None

    def _stat_files(self, pid: int) -> list[Path]:
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text().splitlines()
        except OSError:
            return []
        own = next((line[3:] for line in lines if line.startswith("0::")), None)
        if own is None:
            return []
        group = self._root / own.strip("/")
        folders = [group, *group.parents] if group != self._root else [group]
        return [folder / "cpu.stat" for folder in folders if folder.is_relative_to(self._root)]


def _throttled_usec(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("throttled_usec ")), None)


def _some_avg10(path: Path) -> float | None:
    try:
        text = path.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            return float(dict(field.split("=") for field in fields)["avg10"]) / 100
    return None


def _speeds() -> dict[str, float | None]:
    return {name: state.speed * 1e6 if state.speed > 0 else None for name, state in psutil.net_if_stats().items()}


def _swap_used() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # containers hide /proc/vmstat, which only its rates need
        return psutil.swap_memory().used
