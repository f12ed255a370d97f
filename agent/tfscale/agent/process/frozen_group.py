"""Freezer of the control group in which a task's process is, as `docker pause` and suspending batch systems use it."""

from __future__ import annotations

from pathlib import Path

from tfscale.agent.process.kernel_file import KernelFile

_REFRESH = 5.0
"""Seconds after which the group of a process is looked up again: processes are not moved just before they are
frozen."""


class FrozenGroup:
    """Watch over the groups of one process after the other; their files stay open."""

    def __init__(self, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc, self._cgroups = proc, cgroups
        self._pid, self._looked = 0, 0.0
        self._files: list[KernelFile] = []

    def is_frozen(self, now: float, pid: int) -> bool:
        """Return whether the process's group, or one above it, is frozen (cgroup v2 or v1); False where unknown.

        `now` is of any steady clock.
        """
        if pid != self._pid or now - self._looked >= _REFRESH:
            self._pid, self._looked = pid, now
            self._files = [KernelFile(path) for path in self._paths(pid) if path.exists()]
        return any(_tells_frozen(file.read_if_there()) for file in self._files)

    def _paths(self, pid: int) -> list[Path]:
        """Return the files that tell whether the group is frozen, also because of a group above it."""
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text().splitlines()
        except OSError:
            return []
        found = []
        for _, controllers, group in (line.split(":", 2) for line in lines):
            if not controllers:
                found += [self._cgroups / part / group.strip("/") / "cgroup.events" for part in ("", "unified")]
            elif "freezer" in controllers.split(","):
                found.append(self._cgroups / controllers / group.strip("/") / "freezer.state")
        return found


def _tells_frozen(text: bytes) -> bool:
    return text.strip() in (b"FROZEN", b"FREEZING") or b"frozen 1" in text.splitlines()
