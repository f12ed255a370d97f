import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tfscale
from loopback import free_addresses
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import TaskSpec
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.task import Role, Task

sys.path.append(str(Path(__file__).parent))
"""The fakes of this folder are modules of its tests."""
SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")


@pytest.fixture
def make_cluster() -> Callable[[int], ClusterSpec]:
    """Return a function that makes a cluster of so many workers on free loopback ports."""

    def make(workers: int) -> ClusterSpec:
        addresses = map(parse_address, free_addresses(2 * workers))
        tasks = [Task(Role.WORKER, index) for index in range(workers)]
        return ClusterSpec(
            name="test",
            tasks={task: next(addresses) for task in tasks},
            agents={task: next(addresses) for task in tasks},
        )

    return make


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., AgentSettings]:
    """Return a function that makes the settings of one task of a cluster."""

    def make(cluster: ClusterSpec, task: Task, **changes: Any) -> AgentSettings:
        fields = {
            "command": SLEEPER,
            "grace": 2.0,
            "run": "test",
            "state_dir": tmp_path,
            "listen": cluster.agents[task],
        }
        return AgentSettings(cluster=cluster, task=task, **{**fields, **changes})

    return make


@pytest.fixture
def settings_of(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> Callable[..., AgentSettings]:
    """Return the settings of each task of one cluster of three workers."""
    cluster = make_cluster(3)

    def make(task: Task, **changes: object) -> AgentSettings:
        return make_settings(cluster, task, **changes)

    return make


@pytest.fixture
def spec(tmp_path: Path) -> TaskSpec:
    return TaskSpec(
        command=SLEEPER,
        directory=None,
        state=tmp_path / "state.json",
        lock=tmp_path / "lock",
        log=tmp_path / "task.log",
        grace=2.0,
        log_size=1 << 20,
        log_keep=2,
    )


@pytest.fixture
def source_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other processes import tfscale from where this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(portion).parent) for portion in tfscale.__path__))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("xdg")))
    for name in ("TF_CONFIG", "TFSCALE_CLUSTER", "TFSCALE_TASK", "TFSCALE_ROLE", "TFSCALE_INDEX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)
