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
_NEEDED = ("TFSCALE_REPORT", "TFSCALE_PROBE_PATH")


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """Process with its command line and environment."""

    pid: int
    command: Sequence[str]
    environment: Mapping[str, str]
    executable: str

    @property
    def python(self) -> str:
        """Path of the process's Python as its launcher named it: in a virtual environment that is a link."""
        named = shutil.which(self.command[0], path=self.environment.get("PATH")) if self.command else None
        return named or self.executable


class AbsentProbe:
    """Watch over a task from which no probe reports."""

    def __init__(self) -> None:
        self.status: ProbeStatus | None = None
        """Status of the absent probe, None where one reports, or still may."""
        self._looked = -_PERIOD

    def look(self, task_pid: int | None) -> None:
        """Look at the processes of a task without a probe, every few seconds; `task_pid` is None where no task runs."""
        now = time.monotonic()
        if task_pid is None:
            self.status, self._looked = None, -_PERIOD
        elif now - self._looked >= _PERIOD:
            self._looked, before = now, self.status
            self.status = absent_probe(task_pid)
            if self.status is not None and self.status != before:
                _logger.warning("the task is neither measured nor repaired: %s", self.status.message)


def absent_probe(task_pid: int) -> ProbeStatus | None:
    """Return the status of a probe that no process of the task will load, with the reason and what to do.

    None while no process has loaded TensorFlow, or where a process may still report.
    """
    site = probe_site()
    reasons = [reason(process, site) for process in _without_mark(task_pid)]
    return ProbeStatus(ProbeState.ABSENT, reasons[-1]) if reasons and all(reasons) else None


def reason(process: StartedProcess, site: str | None) -> str:
    """Return why the probe is not in this process, and what to do; empty where nothing keeps it out.

    `site` is the folder that must be on the process's PYTHONPATH, None where the probe is not installed.
    """
    if site is None:
        return "the trainer part of tfscale is not installed beside its agent: install all of tfscale there"
    flags = _flags(process.command)
    if "S" in flags:
        return f"Python of its process {process.pid} was started with -S, which reads no packages: leave that out"
    if (why := _lost_path(process, flags, site)) is None:
        return ""
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


def _without_mark(task_pid: int) -> Iterator[StartedProcess]:
    """Yield the task's processes that have loaded TensorFlow without being entered by the second way in."""
    try:
        root = psutil.Process(task_pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return
    for process in processes:
        try:
            maps = Path(f"/proc/{process.pid}/maps").read_text(errors="replace")
            if _TENSORFLOW in maps and _MARK not in maps:
                yield StartedProcess(process.pid, process.cmdline(), process.environ(), process.exe())
        except (OSError, psutil.Error):  # it has ended, or belongs to another user
            continue
