"""TF_CONFIG and the variables of a pod, read by the agent's own command line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tfscale.agent.cli import read_settings
from tfscale.agent.host.indexed_job import job_cluster
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.errors import UsageError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
CHIEF, WORKERS = "digits-chief-0.train.svc:2222", [f"digits-worker-{index}.train.svc:2222" for index in range(2)]
CLUSTER = {"chief": [CHIEF], "worker": WORKERS, "ps": ["digits-ps-0.train.svc:2222"]}
JOB = {**POD, "JOB_COMPLETION_INDEX": "1", "PET_NNODES": "3"}


def settings_of(config: object, *flags: str, **environment: str) -> AgentSettings:
    variables = {**POD, **environment} | ({} if config is None else {"TF_CONFIG": json.dumps(config)})
    (settings,) = read_settings([*flags, "--", "python", "train.py"], variables)
    return settings


def test_state_of_a_user_without_a_writable_home_is_kept_in_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert settings_of(None).state_dir.parent != tmp_path
    (home := tmp_path / "home").write_text("not a folder")
    assert settings_of(None, XDG_STATE_HOME=str(home)).state_dir == tmp_path / f"tfscale-state-{os.getuid()}"
    assert settings_of(None, "--state-dir", "/srv", XDG_STATE_HOME=str(home)).state_dir == Path("/srv")


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "environment": "cloud"}, "worker:1"),
        ({"cluster": {"master": [CHIEF], "worker": WORKERS}, "task": {"type": "master", "index": 0}}, "chief:0"),
        ({"cluster": {"worker": WORKERS}, "task": {"type": "evaluator", "index": 0}}, "evaluator:0"),
        (
            {
                **{"cluster": {"chief": [CHIEF], "worker": WORKERS}, "job": {"scale_tier": "CUSTOM"}},
                **{"task": {"type": "worker", "index": 0, "trial": "3", "cloud": "x"}, "rpc_layer": "grpc"},
            },
            "worker:0",
        ),
    ],
    ids=["TFJob", "AI Platform", "evaluator outside", "extra keys"],
)
def test_a_pod_needs_no_flag_though_no_name_resolves_yet(config: object, task: str) -> None:
    settings = settings_of(config)
    assert (str(settings.task), settings.listen) == (task, Address("0.0.0.0", 7070))
    assert settings.insecure and settings.exit_with_task and settings.show_output and settings.restart
    assert settings.grace < 30
    chosen = settings_of(config, "--no-exit-with-task", "--grace", "300", "--listen", "127.0.0.1:7171")
    assert (chosen.exit_with_task, chosen.grace, chosen.listen) == (False, 300, Address("127.0.0.1", 7171))


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"environment": "cloud"},
        {"cluster": {}, "task": {"type": "worker", "index": 0}},
        {"task": {"type": "worker", "index": 0}, "environment": "cloud"},
    ],
)
def test_a_tf_config_without_a_cluster_is_a_program_alone_that_this_pod_only_can_reach(config: object) -> None:
    settings = settings_of(config)
    assert settings.cluster.is_alone and settings.listen.is_loopback and not settings.insecure
    assert settings.exit_with_task and settings.others_unknown == ""


def test_who_is_to_know_only_some_of_the_others_is_watched_by_itself_and_says_so() -> None:
    sparse = {"worker": {"3": "digits-worker-3.train.svc:2222"}, "ps": ["digits-ps-0.train.svc:2222"]}
    settings = settings_of({"sparseCluster": sparse, "task": {"type": "worker", "index": 3}})
    assert settings.cluster.is_alone, "its TF_CONFIG stays as it is"
    assert settings.others_unknown.startswith("its TF_CONFIG names only the tasks that it has to know (sparseCluster)")


def test_outside_of_a_pod_a_tf_config_needs_to_be_told_how_to_go() -> None:
    config = {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}
    with pytest.raises(Exception, match="is not a loopback address: give \\[tls\\] in the cluster file, or --insecure"):
        settings_of(config, KUBERNETES_SERVICE_HOST="")


def test_pods_that_a_job_numbers_are_a_cluster_by_the_name_of_the_own() -> None:
    name = "digits-node-0-1.digits.train.svc.cluster.local"
    found = job_cluster({}, JOB, name)
    assert found is not None
    spec, task = found
    assert (spec.name, str(task)) == ("digits-node-0", "worker:1")
    hosts = [f"digits-node-0-{index}.digits.train.svc.cluster.local" for index in range(3)]
    assert [*map(str, spec.tasks.values())] == [f"{host}:2222" for host in hosts]
    assert [*map(str, spec.agents.values())] == [f"{host}:7070" for host in hosts]
    roles = job_cluster({"pods": 4, "chief": True, "ps": 1}, {**JOB, "PET_NNODES": "auto"}, name)
    assert roles is not None
    assert [*map(str, roles[0].tasks)] == ["chief:0", "worker:0", "worker:1", "ps:0"]
    assert str(roles[1]) == "worker:0"


@pytest.mark.parametrize("environment", [{}, {"JOB_COMPLETION_INDEX": "0"}, {**JOB, "PET_NNODES": "1"}])
def test_a_pod_that_knows_of_no_other_has_no_cluster(environment: dict[str, str]) -> None:
    assert job_cluster({}, environment) is None


@pytest.mark.parametrize(
    ("name", "index", "said"),
    [
        ("digits-node-0-1", "1", "pod 1 of 3 is called digits-node-0-1, which does not tell the names of the others"),
        ("digits-abc.x", "1", "pod 1 of 3 is called digits-abc.x, which does not tell the names of the others"),
        ("digits-7.x", "7", "JOB_COMPLETION_INDEX: 7 is not one of 3 pods: give their number with --pods"),
    ],
)
def test_pods_that_cannot_be_named_are_refused(name: str, index: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        job_cluster({}, {**JOB, "JOB_COMPLETION_INDEX": index}, name)


def test_a_role_is_for_numbered_tasks_alone() -> None:
    config = {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}
    with pytest.raises(UsageError, match="--ps: for tasks that a launcher numbers, and this is no such task"):
        settings_of(config, "--ps", "1")
