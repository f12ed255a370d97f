"""Cluster files: each key, each mistake."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster, parse_cluster
from tfscale.core.cluster.task import Role, Task

PAIR = {"cluster": {"worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}}
WORKER_0, WORKER_1 = Task(Role.WORKER, 0), Task(Role.WORKER, 1)
DOCUMENTED = Path(__file__).parents[4] / "docs" / "reference" / "cluster.md"


def parse(document: object) -> ClusterSpec:
    return parse_cluster(document, name="pair", where="pair.toml", base=Path("/etc"))


def test_agents_are_on_the_tasks_hosts_at_the_default_port() -> None:
    spec = parse(PAIR)
    assert spec.agents == {WORKER_0: Address("10.0.0.2", 7070), WORKER_1: Address("10.0.0.3", 7070)}
    assert spec.name == "pair"
    assert spec.link_speed(WORKER_0) is None


def test_tasks_are_ordered_by_role_whatever_the_file_does() -> None:
    spec = parse({"cluster": {"evaluator": ["e:1"], "ps": ["p:1"], "worker": ["w:1"], "master": ["c:1"]}})
    assert [str(task) for task in spec.tasks] == ["chief:0", "worker:0", "ps:0", "evaluator:0"]
    assert spec.lead == Task(Role.CHIEF, 0)


def test_the_tf_data_service_is_found() -> None:
    spec = parse({"cluster": {"dataworker": ["e:1", "f:1"], "dispatcher": ["d:1"], "worker": ["w:1", "v:1"]}})
    assert [str(task) for task in spec.tasks][2:] == ["dispatcher:0", "dataworker:0", "dataworker:1"]
    assert str(spec.data_service) == "d:1" and parse(PAIR).data_service is None


def test_links_have_their_own_or_the_default_speed() -> None:
    spec = parse({**PAIR, "links": {"default": "10Gbit/s", "worker:1": "200 Mbit/s"}})
    assert spec.link_speed(WORKER_0) == 10e9
    assert spec.link_speed(WORKER_1) == 200e6


def test_json_form_gives_the_same_cluster_back() -> None:
    spec = parse(
        {
            **PAIR,
            "agents": {"worker:0": "[::1]:7171"},
            "links": {"default": "2.5Gbit/s"},
            "devices": {"peak_tflops": 989},
        }
    )
    assert spec.device_peak == 989e12 and parse(PAIR).device_peak is None
    assert parse(json.loads(spec.to_json())) == spec


def test_relative_tls_paths_start_at_the_file() -> None:
    spec = parse({**PAIR, "tls": {"ca": "ca.pem", "certificate": "own.pem", "key": "/keys/own.key"}})
    assert spec.tls is not None
    assert (spec.tls.ca, spec.tls.key) == (Path("/etc/ca.pem"), Path("/keys/own.key"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the file must be a table"),
        ({}, "[cluster] is missing"),
        ({"cluster": {}}, "names no task"),
        ({"cluster": {"worker": []}}, "names no task"),
        (
            {"cluster": {"wroker": ["a:1"]}},
            "unknown role 'wroker': use one of chief, worker, ps, evaluator, dispatcher, dataworker",
        ),
        ({"cluster": {"worker": "a:1"}}, "must be a list"),
        ({"cluster": {"chief": ["a:1", "b:1"]}}, "there can be only one"),
        ({"cluster": {"chief": ["a:1"], "master": ["b:1"]}}, "there twice"),
        ({"cluster": {"worker": ["a:1"], "dispatcher": ["b:1", "b:2"]}}, "dispatcher: there can be only one"),
        ({"cluster": {"worker": ["a:1"], "dispatcher": ["b:1"]}}, "[cluster] dataworker is missing"),
        ({"cluster": {"worker": ["a:1"], "dataworker": ["b:1"]}}, "[cluster] dispatcher is missing"),
        ({"cluster": {"worker": ["a"]}}, "[cluster] worker[0]: 'a' is not host:port"),
        ({"cluster": {"worker": [7]}}, "7 is not host:port"),
        ({"cluster": {"worker": ["::1:2222"]}}, "is not host:port"),
        ({"cluster": {"worker": ["a:1", "b:99999"]}}, "[cluster] worker[1]: port '99999'"),
        ({"cluster": {"worker": ["a:0"]}}, "port '0'"),
        ({"cluster": {"worker": ["a:http"]}}, "port 'http'"),
        ({"cluster": {"worker": ["a:1", "a:1"]}}, "a:1 is used 2 times, by worker:0 and worker:1"),
        (
            {"cluster": {"worker": ["localhost:1", "127.0.0.1:1"]}},
            "localhost:1, that is 127.0.0.1:1, is used 2 times, by worker:0 and worker:1",
        ),
        ({"cluster": {"worker": ["a.org:1"], "ps": ["A.org.:1"]}}, "a.org:1, that is A.org.:1, is used 2 times"),
        ({"cluster": {"worker": ["[::1]:1", "[0:0::1]:1"]}}, "is used 2 times, by worker:0 and worker:1"),
        ({**PAIR, "agents": {"worker:0": "localhost:1", "worker:1": "127.0.0.1:1"}}, "is used 2 times, by the agent"),
        (
            {**PAIR, "agents": {"worker:0": "c:1", "worker:1": "c:1"}},
            "by the agent of worker:0 and the agent of worker:1",
        ),
        ({"cluster": {"worker": ["a:1"]}, "agents": {"worker:0": "a:1"}}, "by worker:0 and the agent of worker:0"),
        ({**PAIR, "agents": {"worker:2": "a:1"}}, "no such task, only worker:0, worker:1"),
        ({**PAIR, "agents": {"worker": "a:1"}}, "'worker' is not a task"),
        ({**PAIR, "agents": ["a:1"]}, "[agents] must be a table"),
        ({**PAIR, "links": {"default": "fast"}}, "'fast' is not a speed"),
        ({**PAIR, "links": {"default": 10}}, "10 is not a speed"),
        *(
            ({**PAIR, "devices": {"peak_tflops": peak}}, f"[devices] peak_tflops: {peak!r} is not a peak in TFLOP/s")
            for peak in (0, -1.5, "989", math.inf, math.nan, True, None)
        ),
        ({**PAIR, "devices": {"peak": 1}}, "[devices] has no key 'peak': use one of peak_tflops"),
        ({**PAIR, "devices": 989}, "[devices] must be a table"),
        ({**PAIR, "links": {"default": "1.2.3Gbit/s"}}, "is not a speed"),
        ({**PAIR, "links": {"worker:7": "1Gbit/s"}}, "no such task"),
        ({**PAIR, "program": {"command": "python train.py"}}, "must be a list of words"),
        ({**PAIR, "program": {"comand": []}}, "[program] has no key 'comand'"),
        ({**PAIR, "program": {"directory": 1}}, "must be a path"),
        ({**PAIR, "program": {"environment": {"A": ["b"]}}}, "environment A must be a string"),
        ({**PAIR, "tls": {"ca": "ca.pem"}}, "[tls] certificate is missing"),
        ({**PAIR, "name": "../up"}, "name must be"),
        ({**PAIR, "name": ".."}, "name must be"),
        ({**PAIR, "name": 3}, "name must be"),
        ({**PAIR, "worker": ["a:1"]}, "the file has no key 'worker'"),
    ],
)
def test_every_mistake_is_one_line_that_says_where(document: object, message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        parse(document)
    line = str(caught.value)
    assert line.startswith("pair.toml: ")
    assert message in line
    assert "\n" not in line
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("document", "agents"),
    [
        (
            {"cluster": {"worker": ["a:2222", "b:2222"], "ps": ["a:2221"]}},
            {"worker:0": "a:7070", "worker:1": "b:7070", "ps:0": "a:7071"},
        ),
        (
            {"cluster": {"chief": ["a:7070"], "worker": ["a:7072", "b:7070"]}},
            {"chief:0": "a:7071", "worker:0": "a:7073", "worker:1": "b:7071"},
        ),
        (
            {"cluster": {"worker": ["a:1", "a:2", "a:3"]}, "agents": {"worker:2": "a:7070", "worker:0": "a:9"}},
            {"worker:0": "a:9", "worker:1": "a:7071", "worker:2": "a:7070"},
        ),
        (
            {"cluster": {"worker": ["a:1", "b:1"]}, "spares": {"agents": ["a:7070"], "tasks": ["a:7071"]}},
            {"worker:0": "a:7072", "worker:1": "b:7070"},
        ),
        (
            {"cluster": {"worker": ["a:1", "a:2"]}, "agents": {"worker:0": "b:7070"}},
            {"worker:0": "b:7070", "worker:1": "a:7070"},
        ),
    ],
)
def test_agents_of_one_host_have_the_next_free_ports(
    document: dict[str, object], agents: Mapping[str, str], tmp_path: Path
) -> None:
    spec = parse(document)
    assert {str(task): str(agent) for task, agent in spec.agents.items()} == agents
    file = tmp_path / "again.json"
    file.write_text(spec.to_json())
    assert load_cluster(file).agents == spec.agents


def test_a_thousand_tasks_of_one_host_have_an_agent_each() -> None:
    spec = parse({"cluster": {"worker": [f"a:{7000 + number}" for number in range(1000)]}})
    assert [agent.port for agent in spec.agents.values()] == list(range(8000, 9000))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.toml", None, "no such cluster file"),
        ("bad.toml", "[cluster\nworker = 1", "not TOML"),
        ("bad.json", "{", "not JSON"),
        ("deep.json", "[" * 100_000, "not JSON"),
        ("binary.toml", b"\xff\xfe", "cannot be read"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, content: str | bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ClusterError, match=message) as caught:
        load_cluster(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        load_cluster(tmp_path)


def test_the_run_is_named_after_the_file_in_letters_fit_for_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "my two hosts.json"
    path.write_text(json.dumps(PAIR))
    assert load_cluster(path).name == "my-two-hosts"


def test_the_example_in_the_documentation_is_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "digits.toml"
    path.write_text(DOCUMENTED.read_text().split("```toml\n")[1].split("```")[0])
    spec = load_cluster(path)
    assert " ".join(map(str, spec.tasks)) == (
        "chief:0 worker:0 worker:1 ps:0 evaluator:0 dispatcher:0 dataworker:0 dataworker:1"
    )
    assert spec.name == "digits"
    assert spec.program.command == ("python", "train.py")
    assert spec.link_speed(WORKER_1) == 200e6
    assert spec.tls is not None
