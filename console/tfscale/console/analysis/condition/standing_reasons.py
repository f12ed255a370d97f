"""Reasons for which a task's process stands still, as far as the kernel of its host tells."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.core.records.host_sample import HostSample
from tfscale.core.text import duration, plural

THROTTLED = 0.5
"""Seconds a second without the processor from which on a standstill is explained: below, a task still makes half of
its steps."""


def reasons_to_stand_still(host: HostSample) -> Iterator[str]:
    """Yield what keeps a task's process from going on, the surest reason first."""
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
