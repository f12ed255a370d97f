"""Control group of the task: how long it was throttled, and which of its processes were killed for memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfscale.agent.process.kernel_file import KernelFile, number_after

_CPU_MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
"""Folders in which distributions mount the controller `cpu` of cgroup v1."""
_THROTTLED = ((b"throttled_usec", 1e6), (b"throttled_time", 1e9))
"""Names in `cpu.stat`, and their units a second: of cgroup v2 and of v1."""
_KILLS = b"\noom_kill "
"""Begin of the count in `memory.events` of v2, `memory.oom_control` of v1 and, of the whole host, /proc/vmstat."""


class TaskCgroup:
    """Figures of the task's group and the groups above it: a limit in any of them slows the task, or ends it."""

    def __init__(self, proc: Path, cgroups: Path) -> None:
        self._proc, self._root = proc, cgroups
        self._pid: int | None = None
        self._cpu: Sequence[KernelFile] = ()
        self._before: tuple[float, list[float | None]] | None = None
        self._kills: KernelFile | None = None
        self._kills_before: float | None = None

    def sample(self, now: float, pid: int | None) -> tuple[float | None, int | None]:
        """Return (seconds a second of throttling, processes killed for memory in this start of the task).

        The second number is kept when the task has ended.
        """
        if pid != self._pid:
            self._pid, self._before = pid, None
            self._cpu = self._cpu_files(pid)
            if pid is not None:
                self._kills = self._kill_file(pid)
                self._kills_before = self._kill_count()
        return self._throttled(now), self._killed()

    def _throttled(self, now: float) -> float | None:
        values = [_throttled_seconds(file.read_if_there()) for file in self._cpu]
        before, self._before = self._before, (now, values)
        if before is None or now <= before[0]:
            return None
        spent = [new - old for new, old in zip(values, before[1], strict=True) if new is not None and old is not None]
        return max(spent) / (now - before[0]) if spent else None

    def _killed(self) -> int | None:
        count = self._kill_count()
        return None if count is None or self._kills_before is None else max(0, round(count - self._kills_before))

    def _kill_count(self) -> float | None:
        return None if self._kills is None else number_after(self._kills.read_if_there(), _KILLS)

    def _cpu_files(self, pid: int | None) -> list[KernelFile]:
        if pid is None:
            return []
        second, first = self._group(pid, ""), self._group(pid, "cpu")
        folders = [*self._upwards("", second), *(each for mount in _CPU_MOUNTS for each in self._upwards(mount, first))]
        return [KernelFile(folder / "cpu.stat") for folder in folders if folder.is_dir()]

    def _kill_file(self, pid: int) -> KernelFile:
        own = [
            ("", self._group(pid, ""), "memory.events"),
            ("memory", self._group(pid, "memory"), "memory.oom_control"),
        ]
        files = [self._root / mount / group / name for mount, group, name in own if group]
        # The group at the top counts nobody; nor is there a file of it.
        return KernelFile(next((file for file in files if file.exists()), self._proc / "vmstat"))

    def _upwards(self, mount: str, group: str | None) -> list[Path]:
        root = self._root / mount
        own = root / (group or "")
        return [] if group is None else [own, *(each for each in own.parents if each.is_relative_to(root))]

    def _group(self, pid: int, controller: str) -> str | None:
        """Return the path of a process's group below the mount of a controller; that of cgroup v2 has no name."""
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text().splitlines()
        except OSError:
            return None
        parts = (line.split(":", 2) for line in lines)
        return next((path.strip("/") for _, names, path in parts if controller in names.split(",")), None)


def _throttled_seconds(stat: bytes) -> float | None:
    for name, unit in _THROTTLED:
        if (value := number_after(stat, name)) is not None:
            return value / unit
    return None
