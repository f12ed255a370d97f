"""Freezer of the control group in which a task's process is, as `docker pause` and suspending batch systems use it."""

from __future__ import annotations

from pathlib import Path


def is_frozen(pid: int, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> bool:
    """Return whether the process's group, or one above it, is frozen (cgroup v2 or v1); False where unknown."""
    return any(_tells_frozen(path) for path in _freezers(pid, proc, cgroups))


def _freezers(pid: int, proc: Path, cgroups: Path) -> list[Path]:
    """Return the files that tell it: both versions count the groups above, too."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for _, controllers, group in (line.split(":", 2) for line in lines):
        if not controllers:
            found += [cgroups / part / group.strip("/") / "cgroup.events" for part in ("", "unified")]
        elif "freezer" in controllers.split(","):
            found.append(cgroups / controllers / group.strip("/") / "freezer.state")
    return found


def _tells_frozen(path: Path) -> bool:
    try:
        text = path.read_text()
    except OSError:
        return False
    return text.strip() in ("FROZEN", "FREEZING") or "frozen 1" in text.splitlines()
