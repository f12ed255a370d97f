"""Status of a probe that does not report, found in /proc in the processes of its task."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from tfscale.agent.process.kept_out import reason, user_name
from tfscale.agent.process.started_process import StartedProcess, started_processes
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.text import bounded

_logger = logging.getLogger(__name__)
_PERIOD = 3.0
"""Seconds between two looks, each of which reads some files of every process of the task."""
_EARLY = 8.0
"""Seconds from a task's start in which its processes are looked at each second, so that a short task is seen, and in
which a missing TensorFlow is not told: launchers and other imports take some seconds. With more, a wrong command would
be told later than ten seconds after its start, as it takes two until a console hears of it."""
_IMPORT = 120.0
"""Seconds for which TensorFlow may be imported. On a host with four times as many processes as cores its import was
seen to take 60 s: with less such a process would be told as one without a probe, with more a probe that never comes
is told later."""
_COMMAND = 60
"""Most characters of a command in a sentence."""


class AbsentProbe:
    """Watch over a task from which no probe reports."""

    def __init__(self) -> None:
        self._found: ProbeStatus | None = None
        self._pid: int | None = None
        self._began = self._looked = 0.0
        self._importing: dict[int, float] = {}
        """Monotonic seconds since when TensorFlow was seen in a process, by its id, and the probe was not."""

    def look(self, task_pid: int | None) -> None:
        """Look at the processes of a task, every few seconds; `task_pid` is None where no task runs."""
        now = time.monotonic()
        if task_pid != self._pid and task_pid is not None:
            self._found, self._began, self._looked = None, now, -_PERIOD
        self._pid = task_pid
        period = _PERIOD if now - self._began > _EARLY else 0.0
        if task_pid is not None and now - self._looked >= period:
            self._looked, before = now, self._found
            self._found = self._look(task_pid, now)
            if self._found is not None and self._found.state is ProbeState.ABSENT and self._found != before:
                _logger.warning("the task is neither measured nor repaired: %s", self._found.message)

    def _look(self, task_pid: int, now: float) -> ProbeStatus | None:
        processes = list(started_processes(task_pid))
        without = [each.pid for each in processes if each.has_tensorflow and not each.has_probe]
        self._importing = {pid: self._importing.get(pid, now) for pid in without}
        return absent_probe(processes, [pid for pid, since in self._importing.items() if now - since > _IMPORT])

    @property
    def status(self) -> ProbeStatus | None:
        """Status of the absent probe, also after the task's end; None where nothing is known so far."""
        is_early = self._pid is not None and time.monotonic() - self._began < _EARLY
        is_expected = self._found is not None and self._found.state is ProbeState.EXPECTED
        return None if is_early and is_expected else self._found


def absent_probe(processes: Sequence[StartedProcess], late: Collection[int] = ()) -> ProbeStatus | None:
    """Return the status of a probe that does not report; None for a task without a process.

    `late` has the numbers of processes in which TensorFlow has been for long, and the probe is not.
    """
    site, loaded = probe_site(), [process for process in processes if process.has_tensorflow]
    if not loaded:
        return ProbeStatus(ProbeState.EXPECTED, _without_tensorflow(processes)) if processes else None
    reasons = [reason(each, site) or (_late(each) if each.pid in late else "") for each in loaded]
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
    return f"its process {able[-1].pid} is importing TensorFlow"


def _late(process: StartedProcess) -> str:
    return (
        f"TensorFlow is in its process {process.pid} ({_shown(process.command)}) for more than {_IMPORT / 60:.0f} min, "
        "and the probe is not: see the task's log, and report this with it"
    )


def _shown(command: Sequence[str]) -> str:
    words = [Path(command[0]).name, *command[1:]] if command else []
    return bounded(shlex.join(words), _COMMAND)
