"""Placements, and the cluster specs that follow from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec, parse_address
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.placement import (
    Placement,
    PlacementError,
    file_placement,
    file_spec,
    parse_placement,
    placed_in,
    placed_spec,
)
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.tf_config import tf_config

WORKERS = ["a:2222", "b:2222", "c:2222"]


def cluster(**more: Any) -> ClusterSpec:
    document = {"cluster": {"worker": WORKERS}, "spares": {"agents": ["d:7070"]}, **more}
    return parse_cluster(document, name="digits", where="cluster.toml", base=Path())


def placement(**seats: str) -> Placement:
    placed = {Task.parse(name.replace("_", ":")): parse_address(f"{host}:7070") for name, host in seats.items()}
    return Placement(5, placed)


def test_a_task_on_a_spare_is_served_there_and_all_its_peers_are_told() -> None:
    spec = placed_spec(cluster(), placement(worker_0="a", worker_1="d", worker_2="c"))
    assert str(spec.agents[Task.parse("worker:1")]) == "d:7070"
    told = json.loads(tf_config(spec, Task.parse("worker:0")))
    assert told["cluster"] == {"worker": ["a:2222", "d:2222", "c:2222"]}


def test_a_vacant_worker_is_no_task() -> None:
    spec = placed_spec(cluster(), placement(worker_0="a", worker_1="c"))
    assert list(map(str, spec.tasks)) == ["worker:0", "worker:1"]
    assert str(spec.tasks[Task.parse("worker:1")]) == "c:2222"


def test_the_fingerprint_and_the_file_stay_as_they_are_wherever_tasks_sit() -> None:
    spec = placed_spec(cluster(), placement(worker_0="a", worker_1="c"))
    assert spec.fingerprint == cluster().fingerprint
    assert spec.to_json() == cluster().to_json()
    again = placed_spec(spec, placement(worker_0="a", worker_1="b", worker_2="d"))
    assert (file_spec(again), placed_in(again)) == (cluster(), 5)
    assert placement(worker_0="a", worker_1="b", worker_2="d").seats == again.agents
    assert placed_spec(again, file_placement(again)) == cluster()


def test_the_speed_of_a_link_stays_with_its_host() -> None:
    spec = placed_spec(
        cluster(links={"worker:0": "1Gbit/s", "worker:1": "2Gbit/s", "default": "3Gbit/s"}),
        placement(worker_0="a", worker_1="d", worker_2="c"),
    )
    assert [spec.link_speed(task) for task in spec.tasks] == [1e9, 3e9, 3e9]


def test_a_placement_is_read_as_it_was_written() -> None:
    one = Placement(7, placement(worker_0="d", worker_1="c").seats, {"b": "failed 3 times within 1 h"})
    assert parse_placement(one.to_json(), cluster()) == one
    assert one.task_of(parse_address("c:7070")) == Task.parse("worker:1")
    assert one.task_of(parse_address("b:7070")) is None


@pytest.mark.parametrize(
    ("seats", "words"),
    [
        ({"worker:0": "a:7070", "worker:2": "c:7070"}, "worker:1 has no agent"),
        ({}, "no worker has an agent"),
        ({"worker:0": "e:7070"}, "has no e:7070"),
        ({"worker:0": "a:7070", "worker:1": "a:7070"}, "holds two tasks"),
        ({"worker:0": "a:7070", "worker:3": "b:7070"}, "has no worker:3"),
        ({"worker:0": 5}, "is not host:port"),
        ([], "no placement"),
    ],
)
def test_a_placement_of_another_cluster_is_refused(seats: object, words: str) -> None:
    with pytest.raises(PlacementError, match=words):
        parse_placement(json.dumps({"generation": 3, "seats": seats, "cordoned": {}}), cluster())


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"generation": -1, "seats": {}}', "[" * 100_000])
def test_what_is_no_placement_is_refused(text: str) -> None:
    with pytest.raises(PlacementError):
        parse_placement(text, cluster())


def test_a_spare_has_the_port_of_the_lead_unless_the_file_says_otherwise() -> None:
    assert {str(each): str(place) for each, place in cluster().spares.items()} == {"d:7070": "d:2222"}
    two = cluster(spares={"agents": ["d:7070", "d:7071"], "tasks": ["d:1", "d:2"]})
    assert [str(place) for place in two.spares.values()] == ["d:1", "d:2"]
    described = parse_cluster(json.loads(two.to_json()), name="t", where="t", base=Path())
    assert described.spares == two.spares


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"spares": {"agents": "d:7070"}}, "agents must be a list"),
        ({"spares": {"agents": ["d"]}}, r"agents\[0\]: 'd' is not host:port"),
        ({"spares": {"agents": ["d:7070"], "tasks": []}}, "tasks has 0 addresses, and agents 1"),
        ({"spares": {"agents": ["d:7070", "d:7070"]}}, "agents names d:7070 twice"),
        ({"spares": {"agents": ["d:7070", "d:7071"]}}, "d:2222 is used 2 times, by the spare d:7070 and the spare"),
        (
            {"agents": {"worker:0": "a:7070"}, "spares": {"agents": ["a:7070"], "tasks": ["a:1"]}},
            "a:7070 is used 2 times, by the agent of worker:0 and the spare",
        ),
        ({"spares": {"agents": ["d:7070"], "hosts": []}}, "has no key 'hosts'"),
        ({"cluster": "alone"}, "a task that belongs to no cluster has none"),
        ({"recovery": {"policy": "Always", "min_workers": 4}}, "min_workers is 4, and .cluster. has 3 workers"),
    ],
)
def test_a_wrong_table_is_told(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        cluster(**more)
