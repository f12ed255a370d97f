import json
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment
from tfscale.core.cluster.task import Role, Task
from tfscale.core.cluster.tf_config import tf_config

WORKER_1 = Task(Role.WORKER, 1)
PAIR = {"worker": ["w:1", "v:1"]}


def parse(cluster: dict[str, list[str]]) -> ClusterSpec:
    return parse_cluster({"cluster": cluster}, name="test", where="test", base=Path())


def made(cluster: dict[str, list[str]], task: Task, given: object = None) -> Any:
    return json.loads(tf_config(parse(cluster), task, json.dumps(given) if given else ""))


def test_it_names_the_own_task_and_hides_the_evaluator_from_the_others() -> None:
    cluster = {**PAIR, "evaluator": ["e:1"]}
    assert made(cluster, WORKER_1) == {"cluster": PAIR, "task": {"type": "worker", "index": 1}}
    assert "evaluator" in made(cluster, Task(Role.EVALUATOR, 0))["cluster"]


def test_the_tf_data_service_is_hidden_from_those_that_train() -> None:
    cluster = {"dataworker": ["e:1", "f:1"], "dispatcher": ["d:1"], **PAIR}
    assert [*made(cluster, WORKER_1)["cluster"]] == ["worker"]
    assert [*made(cluster, Task(Role.DATAWORKER, 1))["cluster"]] == ["worker", "dispatcher", "dataworker"]
    given = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert [*made(cluster, WORKER_1, given)["cluster"]] == ["worker"]


@pytest.mark.parametrize(
    "given",
    [
        '{"cluster":{"master":["a:1"],"worker":["b:1"]},  "task":{"type":"master","index":0,"trial":"7"},"job":{}}',
        '{"cluster": {"worker": ["b:1"], "chief": ["a:1"]}, "task": {"index": "0", "type": "worker"}}',
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "evaluator", "index": 0}}',
        '{"cluster": {"chief": ["a:1"], "evaluator": ["e:1"]}, "task": {"type": "chief"}, "rpc_layer": "grpc"}',
    ],
)
def test_the_platforms_own_text_stays_byte_for_byte_where_nothing_has_to_change(given: str) -> None:
    spec, task = cluster_from_environment({"TF_CONFIG": given})
    assert task is not None
    assert tf_config(spec, task, given) == given


def test_another_task_than_the_platforms_changes_the_task_alone() -> None:
    given = {
        "cluster": {"master": ["a:1"], **PAIR},
        "task": {"type": "worker", "index": 0, "trial": "3"},
        "job": {"a": 1},
    }
    cluster = {"chief": ["a:1"], **PAIR}
    assert made(cluster, WORKER_1, given) == given | {"task": {"type": "worker", "index": 1, "trial": "3"}}
    assert made(cluster, Task(Role.CHIEF, 0), given)["task"] == {"type": "master", "index": 0, "trial": "3"}


def test_another_cluster_than_the_platforms_keeps_what_else_it_says() -> None:
    given = {"cluster": {"master": ["old:1"]}, "task": {"type": "master", "trial": "3"}, "environment": "cloud"}
    assert made({"chief": ["a:1"], **PAIR}, Task(Role.CHIEF, 0), given) == {
        "cluster": {"master": ["a:1"], **PAIR},
        "task": {"type": "master", "trial": "3"},
        "environment": "cloud",
    }


@pytest.mark.parametrize("given", ["no json", "[]", '{"cluster": 1, "task": 2}', '{"cluster": {"boss": ["a:1"]}}'])
def test_what_makes_no_sense_is_replaced(given: str) -> None:
    assert json.loads(tf_config(parse(PAIR), WORKER_1, given)) == {
        "cluster": PAIR,
        "task": {"type": "worker", "index": 1},
    }
