"""Roles that processes of `programs/held_role.py` hold, as the processes themselves tell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

_NEW = 1.5
"""Seconds after which a process that says nothing is gone: it speaks five times a second, on a busy machine later."""


@dataclass(frozen=True)
class HeldRole:
    """Role of one process."""

    task: str
    generation: int
    pid: int


def held(folder: Path) -> set[HeldRole]:
    """Return who has held a role in the last moment, on any host."""
    path, since = folder / "beats", time.time() - _NEW
    lines = path.read_text().splitlines()[-400:] if path.exists() else []
    roles = set()
    for at, task, generation, pid in map(str.split, lines):
        if float(at) > since:
            roles.add(HeldRole(task, int(generation), int(pid)))
    return roles


def taken_twice(folder: Path) -> list[str]:
    """Return the roles that a second process took in the same generation, while the first one held it."""
    path = folder / "twice"
    return path.read_text().splitlines() if path.exists() else []


def is_whole(folder: Path, tasks: list[str], newer_than: int = 0) -> bool:
    """Return whether each task is held once, all in one generation that is newer than the given one."""
    roles = held(folder)
    generations = {role.generation for role in roles}
    return (
        sorted(role.task for role in roles) == sorted(tasks) and len(generations) == 1 and min(generations) > newer_than
    )
