import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tfscale
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.task_environment import (
    SocketError,
    probe_portions,
    probe_site,
    report_socket,
    task_environment,
)
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, ProgramSpec
from tfscale.core.cluster.task import Task


@pytest.fixture
def settings(make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]) -> AgentSettings:
    cluster = replace(make_cluster(2), program=ProgramSpec(environment={"COLOUR": "green", "TF_CONFIG": "theirs"}))
    return make_settings(cluster, Task.parse("worker:1"))


def test_the_task_is_told_who_it_is_and_where_to_report(settings: AgentSettings) -> None:
    found = task_environment(settings, 3, 2, "/run/s.sock", {"HOME": "/root", "TFSCALE_GENERATION": "1"})
    assert found["TF_CONFIG"] == found["TFSCALE_TF_CONFIG"]
    assert json.loads(found["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert (found["TFSCALE_RUN"], found["TFSCALE_TASK"]) == ("test", "worker:1")
    assert (found["TFSCALE_GENERATION"], found["TFSCALE_ATTEMPT"], found["TFSCALE_REPORT"]) == ("3", "2", "/run/s.sock")
    assert found["TFSCALE_DATA_SERVICE"] == ""
    assert (found["HOME"], found["COLOUR"], found["PYTHONUNBUFFERED"]) == ("/root", "green", "1")


def test_the_platforms_tf_config_stays_as_it_is(settings: AgentSettings) -> None:
    cluster = {"worker": [str(address) for address in settings.cluster.tasks.values()]}
    given = json.dumps({"job": 1, "cluster": cluster, "task": {"type": "worker", "index": 1, "trial": "3"}}, indent=1)
    found = task_environment(settings, 1, 1, "s", {"TF_CONFIG": given})
    assert found["TF_CONFIG"] == found["TFSCALE_TF_CONFIG"] == given


def test_the_scripts_own_tf_config_may_count(settings: AgentSettings) -> None:
    found = task_environment(replace(settings, script_tf_config=True), 1, 1, "s", {})
    assert json.loads(found["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert found["TFSCALE_TF_CONFIG"] == ""


def test_a_task_is_told_where_its_data_service_is(settings: AgentSettings) -> None:
    tasks = settings.cluster.tasks | {Task.parse("dispatcher:0"): Address("10.0.0.6", 2222)}
    found = task_environment(replace(settings, cluster=replace(settings.cluster, tasks=tasks)), 1, 1, "s", {})
    assert found["TFSCALE_DATA_SERVICE"] == "grpc://10.0.0.6:2222"


def test_the_port_of_the_agents_page_is_no_port_of_an_agent_that_the_task_starts(settings: AgentSettings) -> None:
    assert "TFSCALE_METRICS" not in task_environment(settings, 1, 1, "socket", {"TFSCALE_METRICS": ":9471"})


def test_what_the_user_chose_stays(settings: AgentSettings) -> None:
    assert task_environment(settings, 1, 1, "s", {"PYTHONUNBUFFERED": "0"})["PYTHONUNBUFFERED"] == "0"


def test_the_probes_site_comes_before_the_users_path(
    settings: AgentSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "tfscale" / "trainer" / "probe" / "entry" / "site"
    site.mkdir(parents=True)
    monkeypatch.setattr(tfscale, "__path__", [str(tmp_path / "tfscale"), str(tmp_path / "elsewhere")])
    assert probe_portions() == [str(tmp_path / "tfscale")]
    found = task_environment(settings, 1, 1, "s", {"PYTHONPATH": "/mine"})
    assert found["PYTHONPATH"] == f"{site}{os.pathsep}/mine"
    assert task_environment(settings, 1, 1, "s", {})["PYTHONPATH"] == str(site)


@pytest.mark.parametrize("program", ["agent", "console", "trainer"])
def test_a_task_may_start_each_program_of_tfscale(settings: AgentSettings, program: str) -> None:
    report = {"TFSCALE_REPORT": "/nowhere"}
    environment = task_environment(settings, 1, 1, "s", dict(os.environ)) | report
    command = [sys.executable, "-m", f"tfscale.{program}.cli", "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("tfscale "), done.stderr


def test_without_the_trainer_the_path_is_the_users(
    settings: AgentSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfscale, "__path__", [str(tmp_path)])
    assert probe_site() is None
    assert task_environment(settings, 1, 1, "s", {"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/mine"
    assert "PYTHONPATH" not in task_environment(settings, 1, 1, "s", {})


def test_the_socket_is_short_private_and_the_same_each_time(settings: AgentSettings) -> None:
    path = report_socket(settings)
    assert path == report_socket(settings)
    assert path.startswith(os.environ["XDG_RUNTIME_DIR"])
    assert len(path) < 108
    assert Path(path).parent.stat().st_mode & 0o077 == 0
    assert path != report_socket(replace(settings, run="other"))


def test_a_runtime_folder_that_is_too_long_is_passed_over(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", short)
    path = report_socket(settings, {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"] + "/x" * 60})
    assert path.startswith(f"{short}/tfscale-{os.getuid()}/")


def test_a_folder_that_others_may_write_is_refused(settings: AgentSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    (folder / f"tfscale-{os.getuid()}").mkdir()
    (folder / f"tfscale-{os.getuid()}").chmod(0o777)
    with pytest.raises(SocketError, match="others may write there"):
        report_socket(settings, {})
