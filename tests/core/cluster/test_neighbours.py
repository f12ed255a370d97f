"""Neighbours of hosts: a few near hosts, and nobody on one host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.neighbours import neighbours
from tfscale.core.cluster.task import Task


def cluster(*agents: str) -> ClusterSpec:
    """Return a cluster of workers whose agents are at these addresses."""
    document = {
        "cluster": {"worker": [f"10.1.0.{index}:2222" for index in range(len(agents))]},
        "agents": {f"worker:{index}": address for index, address in enumerate(agents)},
    }
    return parse_cluster(document, name="test", where="test", base=Path.cwd())


def greeted(spec: ClusterSpec, index: int) -> list[str]:
    return [str(task) for task in neighbours(spec, Task.parse(f"worker:{index}"))]


def test_agents_on_one_host_greet_nobody() -> None:
    assert greeted(cluster("a:1", "a:2", "a:3"), 1) == []


def test_two_hosts_greet_each_other_once() -> None:
    assert greeted(cluster("a:1", "b:1"), 0) == ["worker:1"]
    assert greeted(cluster("a:1", "b:1"), 1) == ["worker:0"]


def test_the_first_task_of_a_host_answers_for_it() -> None:
    assert greeted(cluster("a:1", "a:2", "b:1", "b:2"), 1) == ["worker:2"]


def test_of_many_hosts_each_greets_two_and_is_greeted_by_two() -> None:
    spec = cluster(*(f"host{index}:1" for index in range(250)))
    met = Counter(name for index in range(250) for name in greeted(spec, index))
    assert greeted(spec, 5) == ["worker:6", "worker:4"] and set(met.values()) == {2}
