"""`[recovery]` of the cluster file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.recovery_policy import OnHang, OnStraggler, RecoveryPolicy, RestartPolicy, time_text
from tfscale.core.cluster.task import Role


def parse(recovery: object) -> ClusterSpec:
    document = {"cluster": {"worker": ["10.0.0.2:2222"]}, "recovery": recovery}
    return parse_cluster(document, name="test", where="cluster.toml", base=Path())


def policy_of(recovery: object) -> RecoveryPolicy:
    policy = parse(recovery).recovery
    assert policy is not None
    return policy


def test_one_policy_is_for_all_roles() -> None:
    policy = policy_of({"policy": "OnFailure"})
    assert {policy.of(role) for role in Role} == {RestartPolicy.ON_FAILURE}
    assert (policy.max_restarts, policy.period, policy.backoff, policy.most_backoff) == (10, 3600.0, 2.0, 60.0)
    assert (policy.without_progress, policy.on_hang) == (3, OnHang.TELL)
    assert policy.on_straggler is OnStraggler.TELL


def test_a_table_names_the_policy_of_each_role_and_the_others_have_none() -> None:
    policy = policy_of({"policy": {"worker": "OnFailure", "master": "ExitCode"}, "on_hang": "restart"})
    assert policy.of(Role.WORKER) is RestartPolicy.ON_FAILURE
    assert policy.of(Role.CHIEF) is RestartPolicy.EXIT_CODE
    assert policy.of(Role.PS) is RestartPolicy.NEVER
    assert policy.on_hang is OnHang.RESTART


@pytest.mark.parametrize("on_straggler", OnStraggler)
def test_a_slow_worker_has_a_policy_of_its_own(on_straggler: OnStraggler) -> None:
    assert policy_of({"policy": "Never", "on_straggler": str(on_straggler)}).on_straggler is on_straggler
    with pytest.raises(ClusterError, match="on_straggler: 'end' is none of tell, restart, replace"):
        policy_of({"policy": "Never", "on_straggler": "end"})


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("0.5 s", 0.5), ("1min", 60.0), ("1h", 3600.0), ("2d", 172_800.0)]
)
def test_a_time_has_its_unit(text: str, seconds: float) -> None:
    assert policy_of({"policy": "Always", "period": text, "backoff": "0.5s"}).period == seconds


@pytest.mark.parametrize(("seconds", "text"), [(2.0, "2 s"), (90.0, "90 s"), (60.0, "1 min"), (3600.0, "1 h")])
def test_a_time_is_told_as_it_is_written(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_no_section_restarts_nothing() -> None:
    assert parse_cluster({"cluster": {"worker": ["a:1"]}}, name="t", where="t", base=Path()).recovery is None


def test_it_concerns_agents_alone_and_is_not_sent_to_consoles() -> None:
    assert "recovery" not in json.loads(parse({"policy": "OnFailure"}).to_json())


@pytest.mark.parametrize(
    ("recovery", "says"),
    [
        ({}, "policy is missing: use one of Always, OnFailure, Never, ExitCode"),
        ({"policy": "Sometimes"}, "policy: 'Sometimes' is none of Always, OnFailure, Never, ExitCode"),
        ({"policy": 3}, "policy: 3 is none of Always"),
        ({"policy": {"worker": "always"}}, "policy of worker: 'always' is none of Always"),
        ({"policy": {"boss": "Always"}}, "[recovery] policy: unknown role 'boss'"),
        ({"policy": "Always", "max_restarts": 0}, "max_restarts: 0 is not a whole number from 1 to 1000"),
        ({"policy": "Always", "max_restarts": True}, "max_restarts: True is not a whole number"),
        ({"policy": "Always", "without_progress": 2.5}, "without_progress: 2.5 is not a whole number"),
        ({"policy": "Always", "period": "1 week"}, "period: '1 week' is not a time up to 30 d"),
        ({"policy": "Always", "period": "31d"}, "period: '31d' is not a time up to 30 d"),
        ({"policy": "Always", "backoff": 2}, "backoff: 2 is not a time"),
        ({"policy": "Always", "backoff": "2min"}, "most_backoff is shorter than backoff: give both"),
        ({"policy": "Always", "on_hang": "kill"}, "on_hang: 'kill' is none of tell, restart"),
        ({"policy": "Always", "retries": 2}, "has no key 'retries': use one of policy, max_restarts"),
        ("Always", "[recovery] must be a table"),
    ],
)
def test_a_mistake_is_one_line(recovery: object, says: str) -> None:
    with pytest.raises(ClusterError) as error:
        parse(recovery)
    assert says in str(error.value) and "\n" not in str(error.value)
