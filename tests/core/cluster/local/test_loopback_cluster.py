"""Clusters on this machine alone."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster, parse_cluster
from tfscale.core.cluster.local.loopback_cluster import free_loopback, lone_cluster, run_of, write_local_cluster


def test_every_task_has_an_address_and_an_agent_of_its_own(tmp_path: Path) -> None:
    spec = load_cluster(write_local_cluster(tmp_path / "run.toml", {"chief": 1, "worker": 2, "ps": 2}))
    assert [str(task) for task in spec.tasks] == ["chief:0", "worker:0", "worker:1", "ps:0", "ps:1"]
    assert len({*spec.tasks.values(), *spec.agents.values()}) == 10 and spec.name == "run"


def test_a_lone_task_survives_the_wire() -> None:
    spec = lone_cluster("train-1a2b")
    assert spec.is_alone and [str(task) for task in spec.tasks] == ["worker:0"]
    import json

    assert parse_cluster(json.loads(spec.to_json()), name="", where="the agent", base=Path()) == spec


def test_a_cluster_file_may_hold_a_lone_program(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('cluster = "alone"\n[program]\ncommand = ["python", "train.py"]\n')
    spec = load_cluster(path)
    assert spec.is_alone and str(spec.agents[spec.lead]) == "127.0.0.1:7070"
    assert not replace(spec, tasks={spec.lead: Address("127.0.0.1", 2222)}).is_alone


def test_another_port_is_taken_if_the_usual_one_is_not_free() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert free_loopback(port).port != port
    assert free_loopback(port).port == port


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["python", "train.py", "--data", "a b"], "train"),
        (["python", "-m", "pkg.train"], "pkg.train"),
        (["/opt/a b/launch"], "launch"),
        (["python", "-c", "..."], "python"),
        (["../.hidden.py"], "hidden"),
    ],
)
def test_a_run_is_named_after_its_program_and_told_apart_by_all_else(command: list[str], stem: str) -> None:
    name = run_of(command, Path("/work"))
    assert name.rpartition("-")[0] == stem and name == run_of(command, Path("/work"))
    assert name != run_of([*command, "x"], Path("/work")) and name != run_of(command, Path("/home"))
    ClusterSpec(name, {}, {})
