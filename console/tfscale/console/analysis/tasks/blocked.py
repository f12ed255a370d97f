"""Processes with a thread that cannot go on: the kernel waits for a disk or a file server, or a container is frozen."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.records.host_sample import HostSample
from tfscale.core.text import clock, plural

BLOCKED = 5.0
"""Seconds for which a thread waits in the kernel before it is told. A busy disk answers within one; with less it
would be named, with more a dead disk is named later."""
CONTAINER = "container"
"""Place (`evidence.place`) at which a process cannot go on because its container is frozen."""


def blocked(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each running task with a thread that is blocked in the kernel."""
    held = ((task, task.held.host) for task in tasks if task.running and task.up and task.held)
    return [found for task, host in held if host and (found := _blocked(task.name, task.at or 0.0, host)) is not None]


def _blocked(name: str, at: float, host: HostSample) -> Diagnosis | None:
    task = host.task
    if task is None or task.blocked_for is None or task.blocked_for < BLOCKED:
        return None
    begin = at - task.blocked_for
    count = plural(task.blocked, "thread")
    where = f", in {task.blocked_in}" if task.blocked_in else ""
    why = "a disk or a file server does not answer"
    sentence = f"{count} of {name} cannot go on since {clock(begin)}: the kernel waits{where}; {why}"
    if task.frozen:
        sentence = f"{name} cannot go on since {clock(begin)}: its container is frozen (docker pause, or its cgroup)"
    evidence: Evidence = {
        "threads": float(task.blocked),
        "place": CONTAINER if task.frozen else task.blocked_in or None,
    }
    return Diagnosis("blocked", name, begin, None, "serious", sentence, evidence=evidence)
