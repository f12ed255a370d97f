"""Real processes, frozen by a real control group, and one by its files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.agent.process.frozen_group import FrozenGroup

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
    watch = FrozenGroup()
    assert not watch.is_frozen(0.0, child.pid)
    (group / "freezer.state").write_text("FROZEN")
    assert watch.is_frozen(1.0, child.pid)
    (group / "freezer.state").write_text("THAWED")
    assert not watch.is_frozen(2.0, child.pid)


def test_a_group_of_cgroup_v2_is_frozen_by_its_events(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/pod/task\n")
    events = tmp_path / "pod" / "task" / "cgroup.events"
    events.parent.mkdir(parents=True)
    events.write_text("populated 1\nfrozen 0\n")
    watch = FrozenGroup(tmp_path, tmp_path)
    assert not watch.is_frozen(0.0, 7)
    events.write_text("populated 1\nfrozen 1\n")
    assert watch.is_frozen(1.0, 7)
    (tmp_path / "7" / "cgroup").write_text("0::/other\n")
    assert watch.is_frozen(4.0, 7)
    assert not watch.is_frozen(6.0, 7), "it was moved to another group, in which nothing is frozen"


def test_a_process_that_has_gone_is_not_frozen() -> None:
    assert not FrozenGroup().is_frozen(0.0, 2**22 + 1)
