"""Collector of the host's counters from /proc and cgroups: CPU, memory, pressure, network, the task's process tree."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from tfscale.agent.process.blocked_threads import BlockedThreadsWatch
from tfscale.agent.process.frozen_group import FrozenGroup
from tfscale.agent.process.kernel_file import KernelFile, contents_of, names_in, number_after
from tfscale.agent.process.task_cgroup import TaskCgroup
from tfscale.core.records.host_sample import HostSample, Interface, Pressure, TaskUsage

_REFRESH = 10.0
"""Seconds after which the task's processes and the interfaces' speeds are listed again, which reads all processes of
the host. A new process of the task is counted so much later."""
_TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds in which the kernel counts the CPU time of a process."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_Seconds = dict[tuple[int, int], float]
"""CPU time of each process by its identity."""


class HostCollector:
    """Collector of the host's counters. Rates count from the previous sample; the first sample has None."""

    def __init__(self, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> None:
        self._stat, self._meminfo = KernelFile(proc / "stat"), KernelFile(proc / "meminfo")
        self._pressures = [KernelFile(proc / "pressure" / name) for name in ("cpu", "memory", "io")]
        self._cpu: tuple[int, int] | None = None
        self._network = _Network(proc)
        self._tree = _ProcessTree(proc, cgroups)
        self._cgroup = TaskCgroup(proc, cgroups)

    def sample(self, task_pid: int | None, *, goes_on: bool = False) -> HostSample:
        """Sample the host, and the process tree of `task_pid` if that process is alive.

        `goes_on` tells that the task makes steps: its threads are looked at less often.
        """
        now = time.monotonic()
        used, total, swap = _memory(self._meminfo.read())
        throttled, memory_kills = self._cgroup.sample(now, task_pid)
        return HostSample(
            cpu=self._cpu_ratio(),
            cores=os.cpu_count() or 1,
            load=os.getloadavg()[0],
            memory_used=used,
            memory_total=total,
            swap_used=swap,
            pressure=self._pressure(),
            interfaces=self._network.sample(now),
            task=self._tree.sample(now, task_pid, goes_on=goes_on),
            throttled=throttled,
            memory_kills=memory_kills,
        )

    def _cpu_ratio(self) -> float | None:
        # The times of guests, which follow these eight, are counted in those of user and nice.
        times = [int(ticks) for ticks in self._stat.read().split(maxsplit=9)[1:9]]
        total = sum(times)
        busy = total - times[3] - times[4]  # idle and waiting for a disk
        before, self._cpu = self._cpu, (busy, total)
        if before is None or total <= before[1]:
            return None
        return min(1.0, max(0.0, (busy - before[0]) / (total - before[1])))

    def _pressure(self) -> Pressure | None:
        cpu, memory, io = (_some_avg10(file.read_if_there()) for file in self._pressures)
        return None if cpu is memory is io is None else Pressure(cpu, memory, io)


class _Network:
    """Bytes per second of each interface."""

    def __init__(self, proc: Path) -> None:
        self._counters = KernelFile(proc / "net" / "dev")
        self._before: tuple[float, Mapping[str, tuple[int, int]]] | None = None
        self._speeds: dict[str, float | None] = {}
        self._asked = -_REFRESH

    def sample(self, now: float) -> tuple[Interface, ...]:
        counters = _bytes_by_interface(self._counters.read())
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


class _Process(NamedTuple):
    """State of one process (proc_pid_stat(5))."""

    identity: tuple[int, int]
    """Process id and start time: the kernel gives the id of an ended process to a new process."""
    parent: int
    seconds: float
    """CPU time since its start."""
    threads: int
    state: bytes
    """`T` where a signal has stopped the process, `t` where a debugger has."""


def _granted(pid: int) -> int | None:
    """Return the number of CPUs on which a process may run, None where it may on all, or has ended."""
    try:
        cpus = len(os.sched_getaffinity(pid))
    except OSError:
        return None
    return cpus if cpus < (os.cpu_count() or 1) else None


class _ProcessTree:
    """Usage of a task's process and its descendants."""

    def __init__(self, proc: Path, cgroups: Path) -> None:
        self._proc, self._group = proc, FrozenGroup(proc, cgroups)
        self._parents: dict[int, int] = {}
        """Parent of each process of the host."""
        self._root: tuple[int, int] | None = None
        self._members: list[int] = []
        self._listed = 0.0
        self._blocked = BlockedThreadsWatch(proc)
        self._before: tuple[float, _Seconds] | None = None

    def sample(self, now: float, pid: int | None, *, goes_on: bool) -> TaskUsage | None:
        if pid is None or (root := self._process(pid)) is None:
            return None
        if root.identity != self._root:
            self._root, self._before, self._listed = root.identity, None, -_REFRESH
        if now - self._listed >= _REFRESH:
            self._listed, self._members = now, self._descendants(pid)
        processes = [root, *filter(None, map(self._process, self._members))]
        seconds = {process.identity: process.seconds for process in processes}
        before, self._before = self._before, (now, seconds)
        blocked = self._blocked.sample(now, [process.identity[0] for process in processes], goes_on=goes_on)
        return TaskUsage(
            processes=len(processes),
            threads=sum(process.threads for process in processes),
            cpu=_cores(before, now, seconds),
            memory=sum(self._resident_bytes(process.identity[0]) for process in processes),
            stopped=sum(process.state == b"T" for process in processes),
            traced=sum(process.state == b"t" for process in processes),
            blocked=blocked.count,
            blocked_for=blocked.seconds,
            blocked_in=blocked.place,
            frozen=self._group.is_frozen(now, pid),
            granted=_granted(pid),
        )

    def _descendants(self, root: int) -> list[int]:
        """List the descendants of a process. Of the host's processes only new processes and orphans are read."""
        pids = set(map(int, names_in(str(self._proc))))
        self._parents = {pid: parent for pid, parent in self._parents.items() if pid in pids and parent in pids}
        for pid in pids - self._parents.keys():
            if (process := self._process(pid)) is not None:
                self._parents[pid] = process.parent
        children: dict[int, list[int]] = defaultdict(list)
        for pid, parent in self._parents.items():
            children[parent].append(pid)
        family = [root]
        for pid in family:
            family += children.pop(pid, ())
        return family[1:]

    def _process(self, pid: int) -> _Process | None:
        # A name may have spaces and brackets.
        stat = contents_of(f"{self._proc}/{pid}/stat").rpartition(b")")[2].split()
        if not stat:
            return None
        seconds = (int(stat[11]) + int(stat[12])) * _TICK
        return _Process((pid, int(stat[19])), int(stat[1]), seconds, int(stat[17]), stat[0])

    def _resident_bytes(self, pid: int) -> int:
        # Linux 6.17 and later count exactly here, but not in `stat`.
        statm = contents_of(f"{self._proc}/{pid}/statm").split()
        return int(statm[1]) * _PAGE_BYTES if statm else 0


def _cores(before: tuple[float, _Seconds] | None, now: float, seconds: _Seconds) -> float | None:
    if before is None or now <= before[0]:
        return None
    used = sum(value - before[1][process] for process, value in seconds.items() if process in before[1])
    return max(0.0, used / (now - before[0]))


def _some_avg10(pressure: bytes) -> float | None:
    percent = number_after(pressure, b"some avg10=")
    return None if percent is None else percent / 100


def _memory(meminfo: bytes) -> tuple[int, int, int]:
    """Return the used and the total memory and the used swap."""
    names = (b"MemTotal:", b"MemFree:", b"MemAvailable:", b"SwapTotal:", b"SwapFree:")
    total, free, available, swap, swap_free = (round(1024 * (number_after(meminfo, name) or 0)) for name in names)
    # In some containers the memory that is available is the host's: more than they have.
    return total - (available if 0 < available <= total else free), total, swap - swap_free


def _bytes_by_interface(dev: bytes) -> dict[str, tuple[int, int]]:
    """Return the bytes that each interface has received and sent; unused interfaces are left out."""
    lines = (line.rpartition(b":") for line in dev.splitlines()[2:])
    columns = {name.strip().decode(): counts.split() for name, _, counts in lines}
    counters = {name: (int(counts[0]), int(counts[8])) for name, counts in columns.items()}
    return {name: counts for name, counts in counters.items() if any(counts)}


def _speeds() -> dict[str, float | None]:
    return {name: state.speed * 1e6 if state.speed > 0 else None for name, state in psutil.net_if_stats().items()}
