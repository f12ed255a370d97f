"""Names of tasks in requests, and fingerprints of clusters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment
from tfscale.core.cluster.local.loopback_cluster import lone_cluster
from tfscale.core.cluster.task_identity import TaskIdentity, identity_of

WORKERS = ["10.0.0.1:2222", "10.0.0.2:2222"]
OWN = TaskIdentity("digits", "worker:1", "3f2a91c0")


def fingerprint(cluster: dict[str, list[str]], **more: Any) -> str:
    return parse_cluster({"cluster": cluster, **more}, name="t", where="t", base=Path()).fingerprint


def test_clusters_of_the_same_tasks_have_one_fingerprint() -> None:
    plain = fingerprint({"worker": WORKERS})
    agents = {"worker:0": "localhost:9000"}
    assert plain == fingerprint({"worker": WORKERS}, name="other", agents=agents, links={"default": "1Gbit/s"})
    assert plain == fingerprint({"worker": WORKERS, "evaluator": ["10.0.0.3:2222"]})
    service = {"dispatcher": ["10.0.0.4:2222"], "dataworker": ["10.0.0.5:2222"]}
    assert plain == fingerprint({"worker": WORKERS, **service}) != fingerprint(service)
    assert len({plain, fingerprint({"worker": WORKERS[::-1]}), fingerprint({"worker": WORKERS[:1]})}) == 3
    assert plain != fingerprint({"ps": WORKERS[:1], "worker": WORKERS[1:]})


def test_a_cluster_is_the_same_in_tf_config_and_as_an_agent_describes_it() -> None:
    document = {"cluster": {"worker": WORKERS}, "task": {"type": "evaluator", "index": 0}}
    spec, _ = cluster_from_environment({"TF_CONFIG": json.dumps(document)})
    described = parse_cluster(json.loads(spec.to_json()), name="t", where="t", base=Path())
    assert fingerprint({"worker": WORKERS}) == spec.fingerprint == described.fingerprint


def test_a_task_that_belongs_to_no_cluster_says_so() -> None:
    assert lone_cluster("train").fingerprint == "alone"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            replace(OWN, fingerprint="77777777"),
            "worker:1 of run digits (cluster 77777777): give both the same [cluster]",
        ),
        (replace(OWN, task="worker:0"), "worker:0 of run digits (cluster 3f2a91c0): correct [agents]"),
        (replace(OWN, run="other"), "worker:1 of run other (cluster 3f2a91c0): give both the same --run"),
        (TaskIdentity(task="ps:0"), "ps:0: correct [agents]"),
        (TaskIdentity(run="\x1b[2J" + "x" * 100_000), "a task of run '\\x1b[2J" + "x" * 56 + "...': give both"),
    ],
)
def test_a_request_for_another_is_refused_with_both_names(asked: TaskIdentity, words: str) -> None:
    why = OWN.why_not(asked) or ""
    assert why.startswith(f"this is worker:1 of run digits (cluster 3f2a91c0), and the request is for {words}")
    assert len(why) < 300 and why.isprintable()


def test_what_a_request_does_not_name_is_not_compared() -> None:
    assert OWN.why_not(TaskIdentity()) is None
    assert OWN.why_not(TaskIdentity(task="worker:1", fingerprint="3f2a91c0")) is None
    assert OWN.why_not(OWN) is None


def test_the_fingerprint_of_a_large_cluster_is_computed_once() -> None:
    """An agent has an identity for each of its peers: 5 s of CPU at the start in a cluster of 1,000."""
    spec = parse_cluster({"cluster": {"worker": WORKERS}}, name="t", where="t", base=Path())
    assert len({id(identity_of(spec, "r", task).fingerprint) for task in spec.tasks}) == 1
