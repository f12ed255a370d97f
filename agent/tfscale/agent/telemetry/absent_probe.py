"""Reason why no probe reports from a task, found in /proc in the start of its processes."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from tfscale.agent.probe_install import MODULE
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

_logger = logging.getLogger(__name__)
_TENSORFLOW = "/libtensorflow"
"""Begin of the names of TensorFlow's libraries."""
_MARK = f"/{MODULE}.py"
"""File that is mapped in each process that the second way in has entered."""
_PERIOD = 3.0
"""Seconds between two looks, each of which reads some files of every process of the task."""
_EARLY = 10.0
"""Seconds from a task's start in which its processes are looked at each second, so that a short task is seen, and in
which a missing TensorFlow is no fault: its import takes some seconds."""
_UNLOADED = ProbeStatus(ProbeState.EXPECTED, "none of its processes has loaded TensorFlow")
_NEEDED = ("TFSCALE_REPORT", "TFSCALE_PROBE_PATH")


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """Process with its command line and environment, and what it has loaded."""

    pid: int
    command: Sequence[str]
    environment: Mapping[str, str]
    executable: str
    user: int
    """Number of the user as whom it runs."""
    has_tensorflow: bool
    is_entered: bool
    """True if the second way in has entered it."""

    @property
    def python(self) -> str:
        """Path of the process's Python as its launcher named it: in a virtual environment that is a link."""
        named = shutil.which(self.command[0], path=self.environment.get("PATH")) if self.command else None
        return named or self.executable


class AbsentProbe:
    """Watch over a task from which no probe reports."""

    def __init__(self) -> None:
        self._found: ProbeStatus | None = None
        self._pid: int | None = None
        self._began = self._looked = 0.0

    def look(self, task_pid: int | None) -> None:
        """Look at the processes of a task, every few seconds; `task_pid` is None where no task runs."""
        now = time.monotonic()
        if task_pid != self._pid and task_pid is not None:
            self._found, self._began, self._looked = None, now, -_PERIOD
        self._pid = task_pid
        period = _PERIOD if now - self._began > _EARLY else 0.0
        if task_pid is not None and now - self._looked >= period:
            self._looked, before = now, self._found
            self._found = absent_probe(task_pid)
            if self._found is not None and self._found not in (before, _UNLOADED):
                _logger.warning("the task is neither measured nor repaired: %s", self._found.message)

    @property
    def status(self) -> ProbeStatus | None:
        """Status of the absent probe, also after the task's end; None where a process may still report."""
        is_early = self._pid is not None and time.monotonic() - self._began < _EARLY
        return None if is_early and self._found is _UNLOADED else self._found


def absent_probe(task_pid: int) -> ProbeStatus | None:
    """Return the status of a probe that no process of the task has, with the reason and what to do.

    None where a process may still report, or where the agent may look into no process.
    """
    site, processes = probe_site(), list(_processes(task_pid))
    reasons = [reason(process, site) for process in processes if process.has_tensorflow]
    if not reasons:
        return _UNLOADED if processes else None
    return ProbeStatus(ProbeState.ABSENT, reasons[-1]) if all(reasons) else None


def reason(process: StartedProcess, site: str | None) -> str:
    """Return why the probe is not in this process, and what to do; empty where nothing keeps it out.

    `site` is the folder that must be on the process's PYTHONPATH, None where the probe is not installed.
    """
    if process.is_entered:
        return _out_of_reach(process)
    if site is None:
        return "the trainer part of tfscale is not installed beside its agent: install all of tfscale there"
    flags = _flags(process.command)
    if "S" in flags:
        return f"Python of its process {process.pid} was started with -S, which reads no packages: leave that out"
    if (why := _lost_path(process, flags, site)) is None:
        return _out_of_reach(process)
    return f"{why}, or run 'tfscale-agent install-probe --python {shlex.quote(process.python)}' once; then restart it"


def _lost_path(process: StartedProcess, flags: str, site: str) -> str | None:
    number = f"its process {process.pid}"
    if ignoring := [flag for flag in flags if flag in "IE"]:
        return f"Python of {number} was started with -{ignoring[0]}, which ignores PYTHONPATH: leave that out"
    if missing := [name for name in _NEEDED if not process.environment.get(name)]:
        return f"the environment of {number} was cleaned, and lacks {missing[0]}: keep all TFSCALE_ variables in it"
    path = process.environment.get("PYTHONPATH", "")
    folders = path.split(os.pathsep)
    if site not in folders:
        how = f"was set to {path!r} anew" if path else "was removed"
        return f"PYTHONPATH of {number} {how}: write PYTHONPATH={path or 'FOLDER'}:$PYTHONPATH in its launcher"
    for folder in folders[: folders.index(site)]:
        if (Path(folder) / "sitecustomize.py").is_file():
            return f"PYTHONPATH of {number} has {folder}/sitecustomize.py before the probe's: put that folder last"
    return None


def _out_of_reach(process: StartedProcess) -> str:
    """Return why the process cannot report to this agent, and what to do; empty where it can, or where unknown."""
    if process.user not in (0, os.getuid()):
        return (
            f"its process {process.pid} runs as user {process.user}, who may not write to the agent's socket: "
            "start the agent as that user"
        )
    socket, portions = (process.environment.get(name, "") for name in _NEEDED)
    for path in filter(None, [socket, *portions.split(os.pathsep)]):
        if not _is_seen(process.pid, path):
            return (
                f"its process {process.pid} does not see {path}, which the probe needs: mount that path in its "
                "container, or start agent and task anew where it was removed"
            )
    return ""


def _is_seen(pid: int, path: str) -> bool:
    """Decide whether a path exists for a process; True where unknown."""
    root = Path(f"/proc/{pid}/root")
    try:
        (root / path.lstrip("/")).stat()
    except FileNotFoundError:
        return not root.exists()  # the process has ended
    except OSError:  # the agent may not look into it
        return True
    return True


def _flags(command: Sequence[str]) -> str:
    """Return the letters of the options of Python itself in its command line."""
    letters = ""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            break
        for place, letter in enumerate(word[1:], 2):
            if letter in "cm":
                return letters
            if letter in "WX":
                _ = word[place:] or next(words, "")
                break
            letters += letter
    return letters


def _processes(task_pid: int) -> Iterator[StartedProcess]:
    """Yield the processes of the task into which the agent may look."""
    try:
        root = psutil.Process(task_pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in processes:
        try:
            maps = Path(f"/proc/{process.pid}/maps").read_text(errors="replace")
            yield StartedProcess(
                process.pid,
                process.cmdline(),
                process.environ(),
                process.exe(),
                user=process.uids().effective,
                has_tensorflow=_TENSORFLOW in maps,
                is_entered=_MARK in maps,
            )
        except (OSError, psutil.Error):  # it has ended, or belongs to another user
            continue
