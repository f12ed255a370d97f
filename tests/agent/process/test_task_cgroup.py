"""Control groups: real ones of cgroup v1 or v2 where this user may make them, and files as the kernel writes them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.agent.process.task_cgroup import TaskCgroup

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
GROUP = f"tfscale-test-{os.getpid()}"
PID = 77
HUNGRY = "kept = []\nwhile True: kept.append(bytearray(b'x' * (1 << 20)))"
BUSY = "while True: pass"


@contextlib.contextmanager
def limited(controller: str, limits: dict[str, str]) -> Iterator[Path]:
    """Make a group of cgroup v1 with these limits; skips the test where that is not possible."""
    folder = GROUPS / controller / GROUP
    try:
        folder.mkdir()
    except OSError:
        pytest.skip(f"no group of cgroup v1 can be made for {controller}")
    try:
        for name, value in limits.items():
            (folder / name).write_text(value)
        yield folder
    finally:
        folder.rmdir()


def start_in(folder: Path, program: str) -> subprocess.Popen[bytes]:
    """Start a program that waits for a line, put it into a group, and let it go on."""
    child = subprocess.Popen([sys.executable, "-c", f"input()\n{program}"], stdin=subprocess.PIPE)
    (folder / "cgroup.procs").write_text(str(child.pid))
    assert child.stdin is not None
    return child


def go(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.close()


def test_a_process_that_the_kernel_killed_for_memory_is_counted() -> None:
    limits = {"memory.limit_in_bytes": str(64 << 20)}
    with limited("memory", limits) as folder:
        cgroup, child = TaskCgroup(PROC, GROUPS), start_in(folder, HUNGRY)
        assert cgroup.sample(0.0, child.pid)[1] == 0
        go(child)
        assert child.wait(60) == -9
        assert cgroup.sample(1.0, None)[1] == 1, "it is told when the task has ended"


def test_a_quota_of_cgroup_v1_throttles() -> None:
    with limited("cpu", {"cpu.cfs_quota_us": "10000", "cpu.cfs_period_us": "100000"}) as folder:
        cgroup, child = TaskCgroup(PROC, GROUPS), start_in(folder, BUSY)
        try:
            cgroup.sample(time.monotonic(), child.pid)
            go(child)
            for _ in range(60):  # a host with other work may give it less than its quota at first
                time.sleep(1)
                throttled, _ = cgroup.sample(time.monotonic(), child.pid)
                if throttled is not None and throttled > 0.3:
                    break
        finally:
            child.kill()
            child.wait()
        # The group goes when the kernel has let go of its last process.
        time.sleep(0.2)
    assert throttled is not None and throttled > 0.3


def files(tmp_path: Path, group: str, **contents: str) -> TaskCgroup:
    """Return the reader of a process in a group, below whose folder these files are (`_` for `.` in their names)."""
    (tmp_path / "proc" / str(PID)).mkdir(parents=True)
    (tmp_path / "proc" / str(PID) / "cgroup").write_text(f"1:name=systemd:/\n0::{group}\n")
    (tmp_path / "proc" / "vmstat").write_text("pgfault 9\noom_kill 4\n")
    folder = tmp_path / "cgroup" / group.strip("/")
    folder.mkdir(parents=True)
    for name, text in contents.items():
        (folder / name.replace("_", ".")).write_text(text)
    return TaskCgroup(tmp_path / "proc", tmp_path / "cgroup")


def test_kills_of_cgroup_v2_are_counted_from_the_tasks_start(tmp_path: Path) -> None:
    cgroup = files(tmp_path, "/pod/task", memory_events="low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    events = tmp_path / "cgroup" / "pod" / "task" / "memory.events"
    assert cgroup.sample(0.0, PID)[1] == 0
    events.write_text(events.read_text().replace("oom_kill 2", "oom_kill 3"))
    assert cgroup.sample(1.0, PID)[1] == cgroup.sample(2.0, None)[1] == 1
    assert cgroup.sample(3.0, PID)[1] == 0, "a later start of the task counts anew"


def test_without_a_group_the_hosts_kills_count(tmp_path: Path) -> None:
    cgroup = files(tmp_path, "/")
    assert cgroup.sample(0.0, PID) == (None, 0)
    (tmp_path / "proc" / "vmstat").write_text("pgfault 9\noom_kill 5\n")
    assert cgroup.sample(1.0, None) == (None, 1)


def test_before_the_first_task_nothing_is_known(tmp_path: Path) -> None:
    assert files(tmp_path, "/").sample(0.0, None) == (None, None)
