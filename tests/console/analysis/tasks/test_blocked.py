"""Threads that cannot go on, kills for memory, and reasons to stand still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.condition.standing_reasons import reasons_to_stand_still
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, TaskUsage
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.text import clock

Make = Callable[[int], Diagnostician]
MakeFrame = Callable[..., Frame]
USAGE = TaskUsage(1, 40, 1.0, 1 << 30)
HOST = HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0, task=USAGE)


def sampled(**changes: object) -> HostSample:
    return replace(HOST, task=replace(USAGE, **changes))  # type: ignore[arg-type]


def test_a_thread_that_waits_in_the_kernel_is_told_after_some_seconds(diagnostician: Make, frame: MakeFrame) -> None:
    observer = diagnostician(2)
    for at in (1000.0, 1003.0, 1006.0):
        host = sampled(blocked=2, blocked_for=at - 999, blocked_in="rpc_wait_bit_killable")
        for worker in ("worker:0", "worker:1"):
            observer.observe(worker, replace(frame(at), host=host if worker == "worker:1" else HOST))
        findings = observer.diagnose(at)
        assert bool(findings.diagnoses) == (at > 1004)
    (blocked,) = findings.diagnoses
    assert (blocked.kind, blocked.subject, blocked.severity, blocked.begin) == ("blocked", "worker:1", "serious", 999.0)
    assert blocked.sentence == (
        f"2 threads of worker:1 cannot go on since {clock(999)}: the kernel waits, in rpc_wait_bit_killable; "
        "a disk or a file server does not answer"
    )


@pytest.mark.parametrize(("kills", "how"), [(1, "was killed by the kernel at "), (0, "was killed by SIGKILL at ")])
def test_a_kill_for_memory_is_told_from_another_kill(
    diagnostician: Make, frame: MakeFrame, died: Callable[..., TaskStatus], kills: int, how: str
) -> None:
    observer = diagnostician(2)
    ended = replace(frame(1000.0), status=died(1000.0, signal=9), host=replace(HOST, memory_kills=kills))
    for at in range(1000, 1005):
        observer.observe("worker:0", frame(float(at)))
        observer.observe("worker:1", replace(ended, at=float(at)))
        headline = observer.diagnose(float(at)).headline
    assert headline.startswith(f"worker:1 {how}{clock(1000)}")
    assert ("no memory left" in headline) == bool(kills)


def test_reasons_to_stand_still_come_with_the_surest_first() -> None:
    many = sampled(stopped=1, traced=1, blocked=1, blocked_for=12.0, blocked_in="nfs_wait")
    assert list(reasons_to_stand_still(replace(many, throttled=0.8, memory_kills=1))) == [
        "a signal has stopped its process",
        "a debugger has stopped its process",
        "1 thread of it waits in the kernel (in nfs_wait) for 12 s",
        "its cgroup keeps it from the processor for 80% of the time",
        "the kernel has killed a process of it for want of memory",
    ]
    place = "its input stands at train.py, line 31 (examples)"
    frozen = sampled(frozen=True, blocked=1, blocked_for=12.0, stands_at=place)
    assert list(reasons_to_stand_still(frozen)) == ["its container is frozen", place]
    assert list(reasons_to_stand_still(replace(HOST, throttled=0.1))) == []
