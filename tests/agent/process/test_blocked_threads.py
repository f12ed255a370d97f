"""Threads in uninterruptible sleep: real ones that wait for a child of vfork, or are frozen, and busy ones."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import wait_until
from tfscale.agent.process.blocked_threads import LOOK, BlockedThreads, BlockedThreadsWatch
from tfscale.agent.telemetry.host_collector import HostCollector

PROC = Path("/proc")
WAITS = "import ctypes, time\nfork = ctypes.PyDLL(None).vfork\nprint(flush=True)\nfork()\ntime.sleep(60)"
"""Program that waits in the kernel until the child that shares its memory ends."""
PTRACE_ATTACH = 16


def state_of(pid: int) -> str:
    return (PROC / str(pid) / "stat").read_text().rpartition(") ")[2][0]


def test_a_thread_that_waits_in_the_kernel_is_told_with_the_place() -> None:
    child = subprocess.Popen([sys.executable, "-c", WAITS], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        # Until then it may wait for its own files.
        child.stdout.readline()
        wait_until(lambda: state_of(child.pid) == "D")
        watch = BlockedThreadsWatch(PROC)
        assert watch.sample(0.0, [child.pid]) == BlockedThreads(), "it may go on at once"
        blocked = watch.sample(LOOK, [child.pid])
        assert (blocked.count, blocked.seconds) == (1, LOOK)
        assert watch.sample(5 * LOOK, [child.pid]).seconds == 5 * LOOK
        if os.geteuid() == 0:
            assert blocked.place.replace("_", "").isalnum()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert watch.sample(6 * LOOK, [child.pid]) == BlockedThreads()


def test_a_thread_that_is_often_found_waiting_but_goes_on_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "7" / "task" / "8"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("8 (read (1)) D 1 2")
    watch = BlockedThreadsWatch(tmp_path)
    for switches in range(3):
        (folder / "status").write_text(f"Name:\tx\nvoluntary_ctxt_switches:\t{switches}\n")
        assert watch.sample(LOOK * switches, [7]) == BlockedThreads()
    assert watch.sample(LOOK * 4, [7]) == BlockedThreads(1, LOOK * 2, "")


def test_the_threads_of_a_task_that_makes_steps_are_looked_at_less_often_and_a_wait_is_seen_twice(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "7" / "task" / "8"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("8 (read (1)) D 1 2")
    (folder / "status").write_text("Name:\tx\nvoluntary_ctxt_switches:\t3\n")
    watch = BlockedThreadsWatch(tmp_path)
    for now in (0.0, LOOK, 9.0):
        assert watch.sample(now, [7], goes_on=True) == BlockedThreads(), "it was seen once"
    assert watch.sample(10.0, [7], goes_on=True) == BlockedThreads(1, 10.0, "")
    (folder / "stat").write_text("8 (read (1)) S 1 2")
    assert watch.sample(10.0 + LOOK, [7]) == BlockedThreads(), "the steps have ended, and it is looked at at once"


def test_a_process_that_a_debugger_has_stopped_is_told() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    try:
        if trace(PTRACE_ATTACH, child.pid, None, None) != 0:
            pytest.skip("this user may not trace a process")
        wait_until(lambda: state_of(child.pid) == "t")
        usage = HostCollector().sample(child.pid).task
    finally:
        child.kill()
        child.wait()
    assert usage is not None and (usage.traced, usage.stopped) == (1, 0)
