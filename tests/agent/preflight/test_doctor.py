"""`tfscale-console doctor` as an operator runs it, against real agents on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running_agents import W0, W1, W2, agent, command, runs, status_when
from tfscale.agent.preflight.task_port import Sink
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2

Settings = Callable[..., AgentSettings]
pytestmark = pytest.mark.usefixtures("source_roots")


@pytest.fixture
def cluster(make_cluster: Callable[[int], ClusterSpec]) -> ClusterSpec:
    """Return three workers on addresses of loopback that count as three hosts."""
    made = make_cluster(3)
    addresses = {task: Address(f"127.0.0.{2 + task.index}", at.port) for task, at in made.tasks.items()}
    return replace(made, tasks=addresses)


async def doctor(cluster: ClusterSpec, folder: Path, *flags: str) -> tuple[int | None, str, str]:
    """Run it, and return its exit status, stdout and stderr."""
    file = folder / "cluster.json"
    file.write_text(cluster.to_json())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tfscale.console.cli", "doctor", "--cluster", str(file), *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


def sentences(output: str) -> list[str]:
    return [line.removeprefix("! ") for line in output.splitlines() if line.startswith("! ")]


async def test_a_cluster_that_waits_is_examined_and_starts_afterwards(
    cluster: ClusterSpec, make_settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(60)")
    program = (sys.executable, str(tmp_path / "train.py"))
    async with AsyncExitStack() as stack:
        settings = [make_settings(cluster, task, command=program) for task in (W0, W1, W2)]
        for each in settings:
            await stack.enter_async_context(agent(each))
        await asyncio.gather(*map(runs, settings))
        await command(settings[0], "Stop", "worker:0")
        status, output, errors = await doctor(cluster, tmp_path, "--bandwidth")
        start = await command(settings[0], "Start", "worker:0")
    assert start[-1].stage == agent_pb2.STAGE_DONE
    assert (status, sentences(output)) == (0, []), errors
    rows = [line.split() for line in output.splitlines() if line.startswith("worker:") and " to " not in line]
    assert [row[0] for row in rows] == ["worker:0", "worker:1", "worker:2"]
    assert all("free" in row and "4 of 4" in " ".join(row) for row in rows)
    assert sum(" Gbit/s" in line for line in output.splitlines()) == 3


async def test_each_fault_is_one_sentence_that_names_who(
    cluster: ClusterSpec, make_settings: Settings, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        sink = Sink(cluster.tasks[W1].port)
        stack.callback(sink.close)
        for task, text in ((W0, "print(1)"), (W1, "print(2)")):
            (tmp_path / f"{task.index}").mkdir()
            script = tmp_path / f"{task.index}" / "train.py"
            script.write_text(text)
            settings = make_settings(cluster, task, command=("no-such-program/python", str(script)))
            await stack.enter_async_context(agent(settings))
            if task == W0:
                await status_when(settings, lambda status: status.state is TaskState.EXITED)
        status, output, _ = await doctor(cluster, tmp_path)
    assert status == 3
    silent, taken, *others = sentences(output)
    assert silent == f"no answer of the agent of worker:2 ({cluster.agents[W2]}): connection refused: start it"
    assert taken.startswith(f"worker:1: its port {cluster.tasks[W1]} is taken by process {os.getpid()} (")
    assert sum("cannot be started: No such file or directory" in each for each in others) == 2
    (script_told,) = [each for each in others if "script of workers differs" in each]
    assert script_told.endswith(": copy the same file to all hosts")


async def test_json_has_the_same(cluster: ClusterSpec, make_settings: Settings, tmp_path: Path) -> None:
    async with agent(settings := make_settings(cluster, W0)):
        await runs(settings)
        status, output, _ = await doctor(cluster, tmp_path, "--json")
    found: dict[str, Any] = json.loads(output)
    assert status == 3 and found["type"] == "checkup"
    assert found["tasks"]["worker:0"]["examination"]["task_lives"] is True
    assert abs(found["tasks"]["worker:0"]["clock"]) < 0.5
    assert found["tasks"]["worker:1"]["problem"] == "connection refused: start it"
    assert [each["column"] for each in found["faults"]] == ["agent"]


async def test_where_nobody_answers_the_status_is_1(cluster: ClusterSpec, tmp_path: Path) -> None:
    status, output, _ = await doctor(cluster, tmp_path)
    assert status == 1
    assert sentences(output)[0].startswith("no answer of the agent of worker:0 (")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--simulate", "3"], "doctor takes no --simulate"),
        (["--workers", "3"], "doctor takes no --workers"),
    ],
)
async def test_wrong_use_is_one_line(words: list[str], said: str) -> None:
    command = (sys.executable, "-m", "tfscale.console.cli", "doctor", *words)
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    assert process.returncode == 2 and said in err.decode() and err.count(b"\n") == 1
