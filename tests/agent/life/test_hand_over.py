"""Agents that are asked to leave without ending their tasks: real agents, shims and tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from running_agents import W0, W1, W2, agent, agent_process, command, runs, says, status_when, stub
from tfscale.agent import cli
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.hand_over import HandOverError, hand_over
from tfscale.agent.process.passed_signals import HAND_OVER
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import sole_agent
from tfscale.agent.supervision.shim_state import read_state
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2

pytestmark = pytest.mark.usefixtures("source_roots")


def _pid(settings: AgentSettings) -> int:
    state = read_state(settings.files.shim_state)
    assert state is not None and state.task_pid is not None
    return state.task_pid


async def test_the_task_goes_on_and_the_next_agent_adopts_it(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0)
    with agent_process(settings) as first:
        before = await runs(settings)
        (said,) = await asyncio.to_thread(hand_over, [settings])
        assert first.wait(60) == 0
        assert said.startswith("the agent of worker:0 of run test (cluster ") and "has left" in said
        os.kill(_pid(settings), 0)
        async with agent(settings):
            after = await runs(settings)
        assert (after.pid, after.generation, after.attempt) == (before.pid, before.generation, before.attempt)
        assert after.reason == "adopted: the task outlived its agent"


@pytest.mark.parametrize(("number", "task_goes_on"), [(HAND_OVER, True), (signal.SIGTERM, False)])
async def test_watchers_are_told_whether_the_task_goes_on(
    settings_of: Callable[..., AgentSettings], number: signal.Signals, task_goes_on: bool
) -> None:
    settings = settings_of(W0)
    with agent_process(settings) as process:
        await runs(settings)
        async with stub(settings) as service, asyncio.timeout(60):
            async for reply in service.Watch(agent_pb2.WatchRequest(schema_version=1)):
                if reply.HasField("snapshot"):
                    process.send_signal(number)
    assert reply.HasField("farewell") and reply.farewell.task_goes_on is task_goes_on


async def test_a_stop_that_follows_at_once_does_not_end_the_task(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0)
    settings.files.folder.mkdir(parents=True)
    running = asyncio.create_task((daemon := Daemon(settings)).run())
    pid = (await runs(settings)).pid
    daemon.hand_over()
    daemon.leave()
    daemon.leave()
    assert await running == 0
    async with agent(settings):
        assert (await runs(settings)).pid == pid


@pytest.mark.parametrize(("flag", "words"), [("exit_with_task", "stands for the task's"), ("ends_container", "would")])
async def test_where_the_task_would_end_with_it_it_stays(
    settings_of: Callable[..., AgentSettings], flag: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(settings_of(W0), **{flag: True})
    async with agent(settings) as running:
        await runs(settings)
        os.kill(os.getpid(), HAND_OVER)
        await asyncio.sleep(0.3)
        assert not running.done()
    assert "not handed over: " in caplog.text and words in caplog.text


async def test_a_restart_goes_on_with_the_next_agent_of_its_lead(settings_of: Callable[..., AgentSettings]) -> None:
    slow = ("sh", "-c", "trap 'sleep 1; exit' TERM; echo up; while :; do sleep 0.05; done")
    lead, *others = (settings_of(task, command=slow, grace=5.0) for task in (W0, W1, W2))
    async with agent(others[0]), agent(others[1]):
        with agent_process(lead) as process:
            await asyncio.gather(*map(runs, (lead, *others)))
            await asyncio.gather(*(says(each, "up") for each in (lead, *others)))
            asking = asyncio.create_task(command(lead, "Restart", "worker:1"))
            await status_when(others[0], lambda status: status.state is TaskState.STOPPING)
            process.send_signal(HAND_OVER)
            assert process.wait(60) == 0
            await asyncio.wait([asking])
            async with agent(lead):
                after = await asyncio.gather(
                    *(
                        status_when(each, lambda s: s.generation == 2 and s.state is TaskState.RUNNING)
                        for each in (lead, *others)
                    )
                )
    assert [status.attempt for status in after] == [1, 1, 1]


def test_where_no_agent_is_nothing_is_asked_to_leave(
    make_cluster: Callable[[int], ClusterSpec],
    settings_of: Callable[..., AgentSettings],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(HandOverError, match="has no agent here: give the flags with which it was started"):
        hand_over([settings_of(W0)])
    file = tmp_path / "cluster.json"
    file.write_text(make_cluster(2).to_json())
    assert cli.main(["hand-over", "--cluster", str(file), "--role", "worker", "--index", "1"]) == 1
    assert "worker:1 of run" in capsys.readouterr().err


def test_an_agent_that_ends_before_it_is_asked_has_left(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    monkeypatch.setattr(os, "getpid", lambda: ended.pid)
    held, kill = ExitStack(), os.kill
    held.enter_context(sole_agent(settings_of(W0)))

    def kill_late(pid: int, number: int) -> None:
        held.close()
        kill(pid, number)

    monkeypatch.setattr(os, "kill", kill_late)
    (said,) = hand_over([settings_of(W0)])
    assert "has left" in said


def test_an_agent_that_stays_is_told(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfscale.agent.life import hand_over as module

    with subprocess.Popen(["sh", "-c", f"trap '' {HAND_OVER:d}; sleep 10 & wait"]) as deaf:
        monkeypatch.setattr(module, "_PATIENCE", 0.2)
        monkeypatch.setattr(os, "getpid", lambda: deaf.pid)
        time.sleep(0.2)
        with sole_agent(settings_of(W0)), pytest.raises(HandOverError, match="stays: its log says why"):
            hand_over([settings_of(W0)])
        deaf.kill()
