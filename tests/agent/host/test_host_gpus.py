"""GPUs that the tasks of one process get: a fake driver, real settings and environments."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_nvml import FakeGpu, FakeNvml
from tfscale.agent.host import host_gpus
from tfscale.agent.host.host_gpus import SilentDriver, with_gpus
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.task_environment import task_environment
from tfscale.agent.telemetry.gpu_collector import count_gpus
from tfscale.core.cluster.cluster_spec import ClusterSpec, ProgramSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.placement import parse_placement, placed_spec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError

MakeSettings = Callable[..., AgentSettings]
HERE = {"cluster": {"worker": ["a:1", "a:2", "b:1"], "ps": ["a:3"]}, "spares": {"agents": ["c:7070"], "tasks": ["c:1"]}}


@pytest.fixture
def agents(make_settings: MakeSettings, tmp_path_factory: pytest.TempPathFactory) -> list[AgentSettings]:
    """Return the settings of the three tasks of host a."""
    spec = parse_cluster(HERE, name="x", where="x", base=tmp_path_factory.getbasetemp())
    here = ("worker:0", "worker:1", "ps:0")
    return [make_settings(spec, Task.parse(name), seat=spec.agents[Task.parse(name)]) for name in here]


def visible(agents: tuple[AgentSettings, ...]) -> dict[str, str | None]:
    """Return CUDA_VISIBLE_DEVICES of each task, as it is started."""
    return {
        str(each.task): task_environment(each, 1, 1, "socket", {"PATH": "/bin"}).get("CUDA_VISIBLE_DEVICES")
        for each in agents
    }


def counted(gpus: int) -> Callable[[], int]:
    return lambda: count_gpus(FakeNvml(*(FakeGpu() for _ in range(gpus))))


def test_the_gpus_of_the_host_are_divided_among_the_tasks_that_compute(agents: list[AgentSettings]) -> None:
    assert visible(with_gpus(agents, {}, counted(4))) == {"worker:0": "0,1", "worker:1": "2,3", "ps:0": ""}
    assert visible(with_gpus(agents, {}, counted(2))) == {"worker:0": "0", "worker:1": "1", "ps:0": ""}


def test_what_is_visible_already_is_divided_without_the_driver(agents: list[AgentSettings]) -> None:
    shares = with_gpus(agents, {"CUDA_VISIBLE_DEVICES": "5,GPU-7,6"}, lambda: 1 // 0)
    assert visible(shares) == {"worker:0": "5", "worker:1": "GPU-7,6", "ps:0": ""}


def test_the_cluster_files_environment_stands_before_the_own(agents: list[AgentSettings]) -> None:
    program = ProgramSpec(environment={"CUDA_VISIBLE_DEVICES": "2,3"})
    given = [replace(each, cluster=replace(each.cluster, program=program)) for each in agents]
    assert visible(with_gpus(given, {"CUDA_VISIBLE_DEVICES": "0"})) == {"worker:0": "2", "worker:1": "3", "ps:0": ""}


@pytest.mark.parametrize("environment", [{}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}])
def test_on_a_host_without_a_gpu_nothing_is_set(agents: list[AgentSettings], environment: dict[str, str]) -> None:
    shares = with_gpus(agents, environment, lambda: count_gpus(FakeNvml(driver=False)))
    assert visible(shares) == {"worker:0": None, "worker:1": None, "ps:0": None}


def test_a_process_with_one_agent_leaves_its_task_what_there_is(agents: list[AgentSettings]) -> None:
    (alone,) = with_gpus(agents[:1], {"CUDA_VISIBLE_DEVICES": "0,1"}, counted(4))
    assert alone == agents[0]


def test_fewer_gpus_than_tasks_that_compute_are_one_clear_line(agents: list[AgentSettings]) -> None:
    with pytest.raises(
        UsageError, match=r"compute \(worker:0, worker:1\), and it has 1 GPU: .* CUDA_VISIBLE_DEVICES= "
    ):
        with_gpus(agents, {}, counted(1))
    assert visible(with_gpus([agents[0], agents[2]], {}, counted(1))) == {"worker:0": "0", "ps:0": ""}


def test_a_driver_that_hangs_is_told(agents: list[AgentSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_gpus, "_PATIENCE", 0.05)
    with pytest.raises(SilentDriver, match="how many GPUs this host has: look at nvidia-smi"):
        with_gpus(agents, {}, lambda: time.sleep(0.5) or 4)


def test_tasks_that_were_moved_here_get_the_gpus_of_those_that_left(agents: list[AgentSettings]) -> None:
    """The host's second seat waits as a spare, and its third, which had no GPU, holds worker:1."""
    first, _, third = with_gpus(agents, {}, counted(4))
    seats = {"worker:0": "a:7070", "worker:1": "a:7072", "worker:2": "b:7070", "ps:0": "c:7070"}
    placement = parse_placement(json.dumps({"generation": 2, "seats": seats, "cordoned": {}}), first.cluster)
    spec: ClusterSpec = placed_spec(first.cluster, placement)
    moved = replace(third, cluster=spec, task=Task.parse("worker:1"))
    assert visible((replace(first, cluster=spec), moved)) == {"worker:0": "0,1", "worker:1": "2,3"}
