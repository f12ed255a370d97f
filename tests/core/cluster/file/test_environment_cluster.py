"""Clusters of `TF_CONFIG`."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment
from tfscale.core.cluster.task import Role, Task

PAIR = {"cluster": {"worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}}
EVALUATOR = Task(Role.EVALUATOR, 0)


def from_environment(config: object) -> tuple[ClusterSpec, Task | None]:
    return cluster_from_environment({"TF_CONFIG": json.dumps(config)})


def test_tf_config_gives_the_cluster_and_the_own_task() -> None:
    spec, task = from_environment({"cluster": {"master": ["a:1"], "worker": ["b:1"]}, "task": {"type": "master"}})
    assert task == Task(Role.CHIEF, 0)
    assert spec.lead == task
    assert from_environment({**PAIR, "task": {"type": "worker", "index": "1"}})[1] == Task(Role.WORKER, 1)
    assert from_environment({**PAIR, "environment": "cloud"})[1] is None


def test_an_evaluator_outside_of_its_cluster_is_added_with_an_agent_of_its_own() -> None:
    host = socket.gethostname()
    spec, task = from_environment({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "evaluator"}})
    assert task == EVALUATOR and " ".join(map(str, spec.tasks)) == "chief:0 worker:0 evaluator:0"
    assert spec.agents[EVALUATOR] == Address(host, 7070)
    beside, _ = from_environment({"cluster": {"worker": [f"{host}:2222"]}, "task": {"type": "evaluator", "index": 0}})
    assert (beside.tasks[EVALUATOR], beside.agents[EVALUATOR]) == (Address(host, 2223), Address(host, 7071))
    again = parse_cluster(json.loads(beside.to_json()), name="again", where="again", base=Path())
    assert (again.tasks, again.agents) == (beside.tasks, beside.agents)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"type": "evaluator", "index": 1}, "task evaluator:1 is not in its cluster"),
        ({"type": "worker", "index": 2}, "task worker:2 is not in its cluster, which has worker:0, worker:1"),
        ({"type": "worker", "index": -1}, "is not in its cluster"),
        ({"type": "worker", "index": "one"}, "task index 'one' is not a number"),
        ({"type": "worker", "index": math.inf}, "task index inf is not a number"),
        ({"type": "boss", "index": 0}, "task: unknown role 'boss'"),
        ("worker:1", "task must be an object"),
    ],
)
def test_tf_config_with_a_wrong_task_is_refused(task: object, message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        from_environment({**PAIR, "task": task})
    assert str(caught.value).startswith("TF_CONFIG: ")
    assert message in str(caught.value)


def test_a_tf_config_that_is_none_is_said() -> None:
    with pytest.raises(ClusterError, match="no cluster: TF_CONFIG is not set"):
        cluster_from_environment({})
    with pytest.raises(ClusterError, match="TF_CONFIG: not JSON"):
        cluster_from_environment({"TF_CONFIG": "worker"})
    with pytest.raises(ClusterError, match="TF_CONFIG: must be an object"):
        cluster_from_environment({"TF_CONFIG": "[]"})
