"""Facts that the kernel tells of real processes: frozen by a real control group, and awake."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.agent.process.frozen_group import is_frozen
from tfscale.agent.process.process_facts import ProcessFacts
from tfscale.agent.process.sleeping_threads import SleepingThreads
from tfscale.core.records import TaskUsage

FREEZER = Path("/sys/fs/cgroup/freezer")
needs_freezer = pytest.mark.skipif(not os.access(FREEZER / "cgroup.procs", os.W_OK), reason="no freezer of cgroup v1")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def group(child: subprocess.Popen[bytes]) -> Iterator[Path]:
    """Return the folder of a control group with the child in it."""
    folder = FREEZER / f"tfs{os.getpid()}-test"
    folder.mkdir()
    (folder / "cgroup.procs").write_text(str(child.pid))
    try:
        yield folder
    finally:
        (folder / "freezer.state").write_text("THAWED")
        child.kill()
        child.wait()
        folder.rmdir()


@needs_freezer
def test_a_process_is_frozen_while_its_group_is(child: subprocess.Popen[bytes], group: Path) -> None:
    assert not is_frozen(child.pid)
    (group / "freezer.state").write_text("FROZEN")
    assert is_frozen(child.pid)
    (group / "freezer.state").write_text("THAWED")
    assert not is_frozen(child.pid)


def test_a_group_of_cgroup_v2_is_frozen_by_its_events(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/pod/task\n")
    events = tmp_path / "pod" / "task" / "cgroup.events"
    events.parent.mkdir(parents=True)
    events.write_text("populated 1\nfrozen 0\n")
    assert not is_frozen(7, tmp_path, tmp_path)
    events.write_text("populated 1\nfrozen 1\n")
    assert is_frozen(7, tmp_path, tmp_path)


def test_a_process_that_has_gone_is_not_frozen() -> None:
    assert not is_frozen(2**22 + 1)


def test_threads_that_can_be_woken_do_not_count(child: subprocess.Popen[bytes]) -> None:
    threads = SleepingThreads()
    assert [threads.look(child.pid) for _ in range(2)] == ["", ""]


@needs_freezer
def test_a_thread_that_cannot_be_woken_counts_at_the_second_look(child: subprocess.Popen[bytes], group: Path) -> None:
    (group / "freezer.state").write_text("FROZEN")
    time.sleep(0.2)
    threads = SleepingThreads()
    assert threads.look(child.pid) == ""
    assert "refrigerator" in threads.look(child.pid)


def test_facts_are_added_to_what_a_process_uses(child: subprocess.Popen[bytes]) -> None:
    used = TaskUsage(1, 1, None, 1)
    facts = ProcessFacts().add(used, child.pid, "its input stands at train.py, line 3 (examples)")
    assert facts == TaskUsage(1, 1, None, 1, stands_at="its input stands at train.py, line 3 (examples)")
    assert ProcessFacts().add(None, None, "") is None
