"""Facts that the kernel tells of a task's process: threads that cannot go on, and processes killed for memory."""

from __future__ import annotations

import signal
from dataclasses import replace

from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters, HostSample
from tfscale.core.text import clock, plural, signal_name

BLOCKED = 5.0
"""Seconds for which a thread waits in the kernel, without going on, before it is told (chosen: a disk that is busy
answers within one)."""
HOST_MEMORY = "host_memory"
"""Reason of a crash (`evidence.reason`): the kernel has killed it for want of memory."""
CONTAINER = "container"
"""Place (`evidence.place`) at which a process cannot go on because its container is frozen."""


class ProcessFacts(Detector):
    """Newest facts of each task's process."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, bool, Counters]] = {}
        """Of each task: time of its newest frame, whether something holds its process, counters."""

    def observe(self, task: str, frame: Frame) -> None:
        """Keep the newest facts of a task's agent."""
        self._newest[task] = (frame.at, frame.is_held, frame.counters)

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return one `blocked` for each running task with a thread that the kernel does not let go on."""
        tasks = view.by_name
        names = [name for name, (_, is_held, _) in self._newest.items() if is_held and tasks[name].running]
        found = ((name, self._newest[name][0], self._newest[name][2].host) for name in names if tasks[name].up)
        return [told for name, at, host in found if host and (told := _blocked(name, at, host)) is not None]

    def explain(self, view: ClusterView) -> list[Diagnosis]:
        """Return all findings, crashes by the kernel for want of memory told as such."""
        return [self._killed_for_memory(each) if self._has_kills(each) else each for each in view.found]

    def _has_kills(self, crash: Diagnosis) -> bool:
        is_kill = crash.evidence.get("signal") == signal_name(signal.SIGKILL) and crash.evidence.get("reason") is None
        host = self._newest[crash.subject][2].host if is_kill and crash.subject in self._newest else None
        return bool(host and host.memory_kills)

    def _killed_for_memory(self, crash: Diagnosis) -> Diagnosis:
        _, follows, rest = crash.sentence.partition("; ")
        how = f"{crash.subject} was killed by the kernel at {clock(crash.begin)}"
        sentence = f"{how}: its host or its cgroup had no memory left{follows}{rest}"
        return replace(crash, sentence=sentence, evidence={**crash.evidence, "reason": HOST_MEMORY})


def _blocked(name: str, at: float, host: HostSample) -> Diagnosis | None:
    task = host.task
    if task is None or task.blocked_for is None or task.blocked_for < BLOCKED:
        return None
    begin = at - task.blocked_for
    count = plural(task.blocked, "thread")
    place = f", in {task.blocked_in}" if task.blocked_in else ""
    why = "a disk or a file server does not answer"
    sentence = f"{count} of {name} cannot go on since {clock(begin)}: the kernel waits{place}; {why}"
    if task.frozen:
        sentence = f"{name} cannot go on since {clock(begin)}: its container is frozen (docker pause, or its cgroup)"
    evidence = {"threads": float(task.blocked), "place": CONTAINER if task.frozen else task.blocked_in or None}
    return Diagnosis("blocked", name, begin, None, "serious", sentence, evidence)
