"""Facts that the kernel tells of a task's process: why it stands still, and who has ended it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tfscale.console.analysis.tasks.observed_task import ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters, HostSample
from tfscale.core.text import clock, duration, plural, signal_name

BLOCKED = 5.0
"""Seconds for which a thread waits in the kernel, without going on, before it is told (chosen: a disk that is busy
answers within one)."""
THROTTLED = 0.5
"""Seconds a second without the processor that explain why a task stands still (chosen)."""
HOST_MEMORY = "host_memory"
"""Reason of a crash (`evidence.reason`): the kernel has killed it for want of memory."""


class ProcessFacts:
    """Newest facts of each task's process."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, bool, Counters]] = {}
        """Of each task: time of its newest frame, whether something holds its process, counters."""

    def fold(self, task: str, frame: Frame) -> None:
        """Take in a frame of a task's agent."""
        self._newest[task] = (frame.at, frame.is_held, frame.counters)

    def diagnose(self, tasks: Mapping[str, ObservedTask]) -> list[Diagnosis]:
        """Return one `blocked` for each running task with a thread that the kernel does not let go on."""
        names = [name for name, (_, is_held, _) in self._newest.items() if is_held and tasks[name].running]
        found = ((name, self._newest[name][0], self._newest[name][2].host) for name in names if tasks[name].up)
        return [told for name, at, host in found if host and (told := _blocked(name, at, host)) is not None]

    def explain(self, crashes: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Return the crashes, those by the kernel for want of memory told as such."""
        return [self._killed_for_memory(crash) if self._has_kills(crash) else crash for crash in crashes]

    def _has_kills(self, crash: Diagnosis) -> bool:
        is_kill = crash.evidence.get("signal") == signal_name(signal.SIGKILL) and crash.evidence.get("reason") is None
        host = self._newest[crash.subject][2].host if is_kill and crash.subject in self._newest else None
        return bool(host and host.memory_kills)

    def _killed_for_memory(self, crash: Diagnosis) -> Diagnosis:
        _, follows, rest = crash.sentence.partition("; ")
        how = f"{crash.subject} was killed by the kernel at {clock(crash.begin)}"
        sentence = f"{how}: its host or its cgroup had no memory left{follows}{rest}"
        return replace(crash, sentence=sentence, evidence={**crash.evidence, "reason": HOST_MEMORY})


def reasons_to_stand_still(host: HostSample) -> Iterator[str]:
    """Yield what keeps a task's process from going on, the surest first."""
    task = host.task
    if task is not None and task.stopped:
        yield "a signal has stopped its process"
    if task is not None and task.traced:
        yield "a debugger has stopped its process"
    if task is not None and task.frozen:
        yield "its container is frozen"
    elif task is not None and task.blocked_for is not None:
        yield f"{_wait(host)} for {duration(task.blocked_for)}"
    if host.throttled is not None and host.throttled >= THROTTLED:
        yield f"its cgroup keeps it from the processor for {host.throttled:.0%} of the time"
    if host.memory_kills:
        killed = "a process" if host.memory_kills == 1 else f"{host.memory_kills} processes"
        yield f"the kernel has killed {killed} of it for want of memory"
    if task is not None and task.stands_at:
        yield task.stands_at


def _wait(host: HostSample) -> str:
    task = host.task
    count = task.blocked if task else 0
    place = f" (in {task.blocked_in})" if task and task.blocked_in else ""
    return f"{plural(count, 'thread')} of it {'waits' if count == 1 else 'wait'} in the kernel{place}"


CONTAINER = "container"
"""Place (`evidence.place`) at which a process cannot go on because its container is frozen."""


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
