"""Status of a probe that does not report, found in /proc in the processes of its task."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from tfscale.agent.process.kept_out import reason, user_name
from tfscale.agent.process.started_process import StartedProcess, started_processes
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.core.records.probe_status import IMPORTING, ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import bounded

_logger = logging.getLogger(__name__)
_PERIOD = 3.0
"""Seconds between two looks, each of which reads some files of every process of the task."""
_EARLY = 8.0
"""Seconds from a task's start in which its processes are looked at each second, so that a short task is seen, and in
which a missing TensorFlow is not told: launchers and other imports take some seconds. With more, a wrong command would
be told later than ten seconds after its start, as it takes two until a console hears of it."""
_COMMAND = 60
"""Most characters of a command in a sentence."""


class AbsentProbe:
    """Watch over a task from which no probe reports."""

    def __init__(self) -> None:
        self._made = time.time()
        self._found: ProbeStatus | None = None
        self._start: float | None = None
        """Start of the process of which something was found, Unix seconds."""
        self._pid: int | None = None
        self._began = self._looked = 0.0

    def look(self, task_pid: int | None, status: TaskStatus) -> None:
        """Look at the processes of a task, every few seconds; `task_pid` is None where no task runs."""
        now = time.monotonic()
        if task_pid != self._pid and task_pid is not None:
            self._found, self._began, self._looked = None, now, -_PERIOD
        self._pid = task_pid
        period = _PERIOD if now - self._began > _EARLY else 0.0
        if task_pid is not None and now - self._looked >= period:
            self._looked, before = now, self._found
            self._found = absent_probe(list(started_processes(task_pid)))
            if self._found is not None and self._found.state is ProbeState.ABSENT and self._found != before:
                _logger.warning("the task is neither measured nor repaired: %s", self._found.message)
            self._start = status.started if self._found else self._start
        elif status.state is TaskState.STARTING:
            self._found = None  # what was found is of the attempt before
        elif task_pid is None and self._has_missed(status):
            self._found = ProbeStatus(ProbeState.EXPECTED, "its process ended before anything was seen of it")

    def _has_missed(self, status: TaskStatus) -> bool:
        """Decide whether a process has begun and ended between two looks of this agent."""
        is_own = status.started is not None and status.started > self._made
        return is_own and status.state is TaskState.EXITED and status.started != self._start

    @property
    def status(self) -> ProbeStatus | None:
        """Status of the absent probe, also after the task's end; None where nothing is known so far."""
        is_early = self._pid is not None and time.monotonic() - self._began < _EARLY
        is_expected = self._found is not None and self._found.state is ProbeState.EXPECTED
        return None if is_early and is_expected else self._found


def absent_probe(processes: Sequence[StartedProcess]) -> ProbeStatus | None:
    """Return the status of a probe that does not report; None for a task without a process."""
    site, loaded = probe_site(), [process for process in processes if process.has_tensorflow]
    if not loaded:
        return ProbeStatus(ProbeState.EXPECTED, _without_tensorflow(processes)) if processes else None
    reasons = [reason(each, site) or ("" if each.is_seen else _unseen(each)) for each in loaded]
    if all(reasons):
        return ProbeStatus(ProbeState.ABSENT, reasons[-1])
    able = [process for process, why in zip(loaded, reasons, strict=True) if not why]
    return ProbeStatus(ProbeState.LOADED, _progress(able))


def _without_tensorflow(processes: Sequence[StartedProcess]) -> str:
    if hidden := [process for process in processes if process.is_hidden]:
        who = user_name(hidden[-1].user)
        return (
            f"its process {hidden[-1].pid} runs as {who}, and this agent may not look into it: start the agent as root"
        )
    return f"none of its processes has imported TensorFlow ({_shown(processes[0].command)})"


def _progress(able: Sequence[StartedProcess]) -> str:
    """Return how far a process is in which the probe is, or will be."""
    if ready := next((process for process in able if process.has_probe), None):
        return f"its process {ready.pid} has imported TensorFlow, and has reported no training"
    return f"its process {able[-1].pid} {IMPORTING}"


def _unseen(process: StartedProcess) -> str:
    return (
        f"its process {process.pid} ({_shown(process.command)}) has loaded TensorFlow past the probe: the task's log "
        "says why in a line with 'tfscale:'; without one the program replaces sys.meta_path, or is not Python"
    )


def _shown(command: Sequence[str]) -> str:
    words = [Path(command[0]).name, *command[1:]] if command else []
    return bounded(shlex.join(words), _COMMAND)
