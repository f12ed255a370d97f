"""Control groups (cgroup v1) that tasks of a cluster join."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from incidents.cluster import Cluster

_ROOT = Path("/sys/fs/cgroup")
_NAME = f"tfs{os.getpid()}"
_OWNED = re.compile(r"^tfs(\d+)-")


def missing(kind: str) -> str:
    """Return why no task can join such a group here; empty where it can."""
    return "" if os.access(_ROOT / kind / "cgroup.procs", os.W_OK) else f"cgroup v1 has no {kind} here"


def path(kind: str, task: str) -> Path:
    return _ROOT / kind / f"{_NAME}-{task.replace(':', '-')}"


def make(cluster: Cluster, kind: str, task: str) -> Path:
    """Make a group for a task, and return its folder; it goes with the cluster."""
    group = path(kind, task)
    group.mkdir(exist_ok=True)
    cluster.undone(lambda: _remove(group))
    return group


def inside(group: Path) -> list[str]:
    """Return the words to put before a command so that it runs in a group, as in a container of its own."""
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]


def remove_left() -> None:
    """Remove the groups that killed processes have left."""
    for group in _ROOT.glob("*/tfs*-*"):
        owner = _OWNED.match(group.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _remove(group: Path) -> None:
    """Remove a group whose processes are ending."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            if group.exists():
                group.rmdir()
            return
        time.sleep(0.1)
