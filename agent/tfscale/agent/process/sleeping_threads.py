"""Threads of a process that sleep in the kernel and cannot be woken, as on a disk that hangs (state D)."""

from __future__ import annotations

from pathlib import Path


class SleepingThreads:
    """Watch of one process's threads; a moment of such sleep is usual, so a thread counts at its second look."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: set[str] = set()

    def look(self, pid: int) -> str:
        """Return the kernel's function in which a thread has slept since the look before; empty where none has."""
        asleep = self._asleep(pid)
        lasting = sorted(asleep & self._before)
        self._before = asleep
        return self._function(pid, lasting[0]) if lasting else ""

    def _asleep(self, pid: int) -> set[str]:
        try:
            threads = [path.name for path in (self._proc / str(pid) / "task").iterdir()]
        except OSError:
            return set()
        return {thread for thread in threads if self._read(pid, thread, "stat").rpartition(")")[2].split()[:1] == ["D"]}

    def _function(self, pid: int, thread: str) -> str:
        # Where the kernel hides it, it is "0".
        name = self._read(pid, thread, "wchan").strip()
        return name if name not in ("", "0") else "a function that is not told"

    def _read(self, pid: int, thread: str, name: str) -> str:
        try:
            return (self._proc / str(pid) / "task" / thread / name).read_text()
        except OSError:
            return ""
