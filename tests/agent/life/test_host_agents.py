"""One process for several tasks: real processes, agents, shims and tasks."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import free_addresses
from running_agents import agent_process, agents_process, command, runs, says, status_when
from tfscale.agent.life.hand_over import hand_over
from tfscale.agent.process.passed_signals import HAND_OVER
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_state import read_state
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2

pytestmark = pytest.mark.usefixtures("source_roots")
MakeSettings = Callable[..., AgentSettings]
_BY_ROLE = """
import os, sys, time
print(os.environ["TFSCALE_TASK"], "sees", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)
{}
time.sleep(60)
"""


def program(end: str = "") -> tuple[str, ...]:
    """Return a program that says what it sees, and then does what `end` says."""
    return (sys.executable, "-c", _BY_ROLE.format(end))


@pytest.fixture
def settings_here(make_settings: MakeSettings, tmp_path: Path) -> Callable[..., list[AgentSettings]]:
    """Return a function that makes the settings of two tasks of one host."""

    def make(first: str, second: str, end: str = "", *, may_move: bool = False) -> list[AgentSettings]:
        addresses = free_addresses(6)
        cluster: dict[str, list[str]] = {}
        for name in (first, second):
            cluster.setdefault(name.partition(":")[0], []).append(next(addresses))
        document: dict[str, object] = {"cluster": cluster, "agents": {first: next(addresses), second: next(addresses)}}
        if may_move:
            document["spares"] = {"agents": [next(addresses)], "tasks": [next(addresses)]}
        spec = parse_cluster(document, name="test", where="test", base=tmp_path)
        return [make_settings(spec, task, command=program(end)) for task in spec.tasks]

    return make


@pytest.fixture
def here(settings_here: Callable[..., list[AgentSettings]]) -> list[AgentSettings]:
    """Return the settings of a task that computes and of one that does not."""
    return settings_here("worker:0", "ps:0")


def status(process: subprocess.Popen[bytes]) -> int:
    return process.wait(60)


async def log_of(process: subprocess.Popen[bytes]) -> str:
    """Return the log of a process that ends."""
    _, errors = await asyncio.to_thread(process.communicate, timeout=120)
    return errors.decode()


@pytest.mark.parametrize("may_move", [False, True])
async def test_both_tasks_outlive_their_process_and_the_next_one_adopts_them(
    settings_here: Callable[..., list[AgentSettings]], may_move: bool
) -> None:
    here = settings_here("worker:0", "ps:0", may_move=may_move)
    with agents_process(here) as killed:
        first = await asyncio.gather(*map(runs, here))
        killed.kill()
        killed.wait()
        with agents_process(here) as asked:
            second = await asyncio.gather(*map(runs, here))
            asked.send_signal(HAND_OVER)
            assert status(asked) == 0
            with agents_process(here) as last:
                third = await asyncio.gather(*map(runs, here))
                said = await asyncio.to_thread(hand_over, here)
                assert status(last) == 0
    assert [each.pid for each in first] == [each.pid for each in second] == [each.pid for each in third]
    assert {each.reason for each in (*second, *third)} == {"adopted: the task outlived its agent"}
    assert [re.split(" of run ", sentence)[0] for sentence in said] == ["the agent of worker:0", "the agent of ps:0"]


async def test_a_restart_of_the_gang_a_watched_farewell_and_an_end_in_order(
    here: list[AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with agents_process(here, stderr=subprocess.PIPE) as process:
        before = await asyncio.gather(*map(runs, here))
        for each, seen in zip(here, ("4,5", ""), strict=True):
            await says(each, f"{each.task} sees {seen!r}")
        progress = await command(here[0], "Restart", "worker:0", "ps:0")
        assert progress[-1].stage == agent_pb2.STAGE_DONE
        after = await asyncio.gather(*(status_when(each, lambda now: now.generation == 2) for each in here))
        assert not {each.pid for each in before} & {each.pid for each in after}
        process.terminate()
        errors = await log_of(process)
    assert process.returncode == 0
    lines = [line.split(" ", 3)[2:] for line in errors.splitlines()]
    assert {task for task, _ in lines} == {"worker:0", "ps:0"}
    for task in ("worker:0", "ps:0"):
        assert [words for name, words in lines if name == task and words in ("asked to end", "ended")] == [
            "asked to end",
            "ended",
        ]


async def test_none_starts_where_another_agent_owns_one_task(here: list[AgentSettings]) -> None:
    worker, server = here
    with agent_process(worker) as owner:
        await runs(worker)
        with agents_process(here, stderr=subprocess.PIPE) as refused:
            errors = await log_of(refused)
        assert refused.returncode == 1 and owner.poll() is None
    assert f"worker:0 of run test (cluster {worker.identity.fingerprint}) has an agent with pid {owner.pid}" in errors
    assert errors.count("\n") == 1 and not server.files.shim_state.exists()


async def test_none_starts_where_one_port_is_taken(here: list[AgentSettings]) -> None:
    worker, server = here
    with (
        socket.create_server((server.listen.host, server.listen.port)),
        agents_process(here, stderr=subprocess.PIPE) as refused,
    ):
        errors = await log_of(refused)
    assert refused.returncode == 1
    assert "ERROR ps:0 cannot listen on" in errors and "(Address already in use)" in errors
    assert not worker.files.shim_state.exists() and not server.files.shim_state.exists()


@pytest.mark.parametrize(
    ("first", "second", "status"), [("3", "time.sleep(1) or 4", 3), ("0", "time.sleep(1) or 4", 4), ("0", "0", 0)]
)
def test_the_exit_status_is_that_of_the_first_failure(
    settings_here: Callable[..., list[AgentSettings]], first: str, second: str, status: int
) -> None:
    here = settings_here(
        "worker:0", "worker:1", f"sys.exit({first} if os.environ['TFSCALE_TASK'] == 'worker:0' else {second})"
    )
    with agents_process(here, "--exit-with-task") as process:
        assert process.wait(60) == status
    states = [read_state(each.files.shim_state) for each in here]
    assert all(state is not None and state.ended is not None for state in states)


async def test_a_task_that_fails_ends_neither_the_others_nor_the_process(
    settings_here: Callable[..., list[AgentSettings]],
) -> None:
    here = settings_here("worker:0", "ps:0", "os.environ['TFSCALE_TASK'] == 'worker:0' and sys.exit(7)")
    with agents_process(here) as process:
        failed = await status_when(here[0], lambda now: now.state is TaskState.EXITED)
        assert failed.exit is not None and failed.exit.code == 7
        await runs(here[1])
        assert process.poll() is None
