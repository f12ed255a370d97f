"""Announcements of agents, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tfscale.core.cluster.local.local_agents import LocalAgent, announced, local_agents

_SERVE = """
import os, sys
from tfscale.core.cluster.local.local_agents import LocalAgent, announced
agent = LocalAgent(sys.argv[1], "worker:0", "127.0.0.1:1", os.getpid(), 0.0, "/", ("python", "train.py"))
with announced(agent, os.environ):
    print("up", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment without agents, also in the temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def serve(environment: dict[str, str]) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    processes = []

    def start(run: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SERVE, run]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_agents_are_found_while_they_serve(
    serve: Callable[[str], subprocess.Popen[str]], environment: dict[str, str]
) -> None:
    assert local_agents(environment) == []
    first, second = serve("b"), serve("a")
    assert [(agent.run, agent.pid) for agent in local_agents(environment)] == [("a", second.pid), ("b", first.pid)]
    second.communicate("")
    assert [agent.run for agent in local_agents(environment)] == ["b"]


def test_an_agent_that_was_killed_is_not_found(
    serve: Callable[[str], subprocess.Popen[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    serve("a").send_signal(signal.SIGKILL)
    while local_agents(environment):
        pass
    assert not list(tmp_path.rglob("*.json"))


def test_what_another_version_writes_is_passed_over(environment: dict[str, str], tmp_path: Path) -> None:
    agent = LocalAgent("a", "worker:0", "127.0.0.1:1", 1, 0.0, "/", ())
    with announced(agent, environment):
        (path,) = tmp_path.rglob("*.json")
        path.write_text('{"of": "another version"}')
        assert local_agents(environment) == []


def test_a_folder_in_which_others_may_write_is_not_believed(environment: dict[str, str], tmp_path: Path) -> None:
    with announced(LocalAgent("a", "worker:0", "127.0.0.1:1", 1, 0.0, "/", ()), environment):
        (tmp_path / "tfscale").chmod(0o777)
        assert local_agents(environment) == []
        (tmp_path / "tfscale").chmod(0o700)
        assert len(local_agents(environment)) == 1


def test_an_agent_is_announced_where_there_is_room(environment: dict[str, str], tmp_path: Path) -> None:
    # A file in the place of the folder takes nothing, as a full disk.
    (tmp_path / "tfscale").mkdir(mode=0o700)
    (tmp_path / "tfscale" / "agents").touch()
    agent = LocalAgent("here", "worker:0", "127.0.0.1:1", os.getpid(), 0.0, "/", ("true",))
    with announced(agent, environment):
        assert [found.run for found in local_agents(environment)] == ["here"]
