"""Processes of a task as /proc shows them: who runs them, with which command and environment, and what they map."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MODULE = "tfscale_probe"
"""Module of the second way in, which is copied, and imported by a `.pth` file of the same name."""
_TENSORFLOW = "/libtensorflow"
"""Begin of the names of TensorFlow's libraries."""
_ENTERED = f"/{MODULE}.py"
"""File that is mapped in each process that the second way in has entered."""
_SEEN = "/probe/entry/imports.py"
"""File that the way in keeps mapped from the begin of TensorFlow's import on, unless the probe could not start."""
_PROBE = "/probe/process/presence.py"
"""File that the probe keeps mapped while it is in a process."""
_VERSION = re.compile(r"python3\.(\d+)")


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """Process with its command line and environment, and what it has loaded."""

    pid: int
    user: int
    """Number of the user as whom it runs."""
    command: Sequence[str]
    is_hidden: bool = False
    """True for another user's process, of which the agent may read no more than the above."""
    environment: Mapping[str, str] = field(default_factory=dict)
    executable: str = ""
    has_tensorflow: bool = False
    is_entered: bool = False
    """True if the second way in has entered it."""
    is_seen: bool = False
    """True if the way in has seen the import of TensorFlow, and it or the probe is at work."""
    has_probe: bool = False
    """True from the end of TensorFlow's import to the end of its Python program, where the probe could start."""

    @property
    def python(self) -> str:
        """Path of the process's Python as its launcher named it: in a virtual environment that is a link."""
        named = shutil.which(self.command[0], path=self.environment.get("PATH")) if self.command else None
        return named or self.executable

    @property
    def python_version(self) -> tuple[int, int] | None:
        """Version of its Python, by the name of the executable file; None where that has none."""
        found = _VERSION.fullmatch(Path(self.executable).name)
        return (3, int(found[1])) if found else None


def started_processes(task_pid: int) -> Iterator[StartedProcess]:
    """Yield the living processes of the task, the oldest of each parent first."""
    try:
        root = psutil.Process(task_pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in processes:
        try:
            yield _read(process)
        except (OSError, psutil.NoSuchProcess):  # it has ended
            continue


def user_of(pid: int) -> int | None:
    """Return the number of the user as whom a process runs, None where it has ended."""
    try:
        return int(psutil.Process(pid).uids().effective)
    except psutil.Error:
        return None


def has_probe(pid: int) -> bool:
    """Decide whether the probe is in a living process of which the agent may read what it maps."""
    try:
        return _PROBE in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False


def _read(process: psutil.Process) -> StartedProcess:
    user, command = process.uids().effective, process.cmdline()
    try:
        maps = Path(f"/proc/{process.pid}/maps").read_text(errors="replace")
        return StartedProcess(
            process.pid,
            user,
            command,
            environment=process.environ(),
            executable=process.exe(),
            has_tensorflow=_TENSORFLOW in maps,
            is_entered=_ENTERED in maps,
            is_seen=_SEEN in maps or _PROBE in maps,
            has_probe=_PROBE in maps,
        )
    except (PermissionError, psutil.AccessDenied):
        return StartedProcess(process.pid, user, command, is_hidden=True)
