"""Runs that a console starts on this machine: real agents, with programs that are no trainings."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.console.run.own_run import OwnRun, OwnRunError, devices_of, start_run

_SLEEP = (sys.executable, "-c", "import os, time; print(os.environ.get('TF_CONFIG'), flush=True); time.sleep(60)")

_SERVER = """
import json, os, socket, time
own = json.loads(os.environ["TF_CONFIG"])
host, port = own["cluster"]["worker"][own["task"]["index"]].split(":")
server = socket.create_server((host, int(port)))
print("serves", flush=True)
time.sleep(60)
"""
_SERVE = (sys.executable, "-c", _SERVER)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return dict(os.environ)


@pytest.fixture
def started() -> Iterator[list[OwnRun]]:
    runs: list[OwnRun] = []
    yield runs
    for run in runs:
        run.stop()


def _log(run: OwnRun, task: str) -> str:
    logs = (Path(os.environ["XDG_STATE_HOME"]) / "tfscale").glob(f"{run.name}*/{task}.log")
    return "".join(log.read_text() for log in logs)


def _said(run: OwnRun, task: str, words: str) -> bool:
    until = time.monotonic() + 20
    while words not in _log(run, task) and time.monotonic() < until:
        time.sleep(0.05)
    return words in _log(run, task)


def test_a_program_alone_is_started_once_and_ended(environment: dict[str, str], started: list[OwnRun]) -> None:
    run = start_run(_SLEEP, None, environment)
    started.append(run)
    assert [agent.task for agent in run.agents] == ["worker:0"] and _said(run, "worker-0", "None\n")
    again = start_run(_SLEEP, None, environment)
    assert not again.started and again.agents == run.agents
    again.stop()
    assert not run.agents and run.started[0].wait(1) == 0


def test_several_workers_are_a_cluster(environment: dict[str, str], started: list[OwnRun]) -> None:
    run = start_run(_SLEEP, 2, environment)
    started.append(run)
    assert [agent.task for agent in run.agents] == ["worker:0", "worker:1"]
    assert _said(run, "worker-1", '"task": {"type": "worker", "index": 1}')
    addresses = [agent.address for agent in run.agents]
    run.stop()
    again = start_run(_SLEEP, 2, environment)
    started.append(again)
    assert [agent.address for agent in again.agents] == addresses  # and so its logs are where they were


def test_the_port_of_the_consoles_page_is_not_the_agents(environment: dict[str, str], started: list[OwnRun]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = f"127.0.0.1:{taken.getsockname()[1]}"
        started.append(run := start_run(_SLEEP, None, {**environment, "TFSCALE_METRICS": page}))
        assert [agent.task for agent in run.agents] == ["worker:0"]


def test_tasks_whose_agents_were_killed_are_joined(environment: dict[str, str], started: list[OwnRun]) -> None:
    run = start_run(_SERVE, 2, environment)
    assert _said(run, "worker-0", "\nserves") and _said(run, "worker-1", "\nserves")
    for process in run.started:
        process.kill()
        process.wait()
    again = start_run(_SERVE, 2, environment)
    started.append(again)
    time.sleep(1)
    assert [_log(again, f"worker-{index}").splitlines().count("serves") for index in range(2)] == [1, 1]


def test_an_agent_that_cannot_start_is_one_line(environment: dict[str, str]) -> None:
    environment["TFSCALE_GRACE"] = "soon"
    with pytest.raises(OwnRunError, match=r"the agent of worker:0 does not serve: tfscale-agent: TFSCALE_GRACE"):
        start_run(_SLEEP, None, environment)


@pytest.mark.parametrize(
    ("chosen", "workers", "shares"),
    [
        ("0,1,2,3", 2, ["0,1", "2,3"]),
        ("2,3", 2, ["2", "3"]),
        ("5", 2, ["", "5"]),
        ("0,1,2", 1, [None]),
        ("", 2, [None, None]),
    ],
)
def test_workers_share_the_gpus(chosen: str, workers: int, shares: list[str | None]) -> None:
    given = [devices_of(index, workers, {"CUDA_VISIBLE_DEVICES": chosen}) for index in range(workers)]
    assert [devices.get("CUDA_VISIBLE_DEVICES") for devices in given] == shares
