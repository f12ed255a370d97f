"""The agent's own task, moved from generation to generation without a server."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from running_agents import W1, fill
from tfscale.agent.cluster import start_trial
from tfscale.agent.cluster.gang import GangError, Leaving, Overtaken, Verb
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import TaskSpec
from tfscale.agent.supervision.shim_state import read_state
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.records.task_status import Reason, TaskState


@pytest.fixture
async def task(settings_of: Callable[..., AgentSettings], spec: TaskSpec) -> AsyncIterator[LocalTask]:
    settings = settings_of(W1)
    settings.files.folder.mkdir(parents=True)
    supervisor = Supervisor(spec, lambda _: None)
    task = LocalTask(settings, Journal(settings.files.journal), supervisor, ProbeReports(W1))
    await task.adopt()
    yield task
    await supervisor.stop("the test is over")


async def test_a_task_is_started_once_in_a_generation(task: LocalTask) -> None:
    first = await task.run(2, Reason("test"))
    assert (first.state, first.generation, first.attempt) == (TaskState.RUNNING, 2, 1)
    assert (await task.run(2, Reason("test"))).pid == first.pid
    assert (await task.run(3, Reason("test"))).pid != first.pid


async def test_a_request_that_is_sent_again_waits_for_the_start_of_the_first(task: LocalTask) -> None:
    first = asyncio.create_task(task.run(2, Reason("test")))
    while (await task.status()).state is not TaskState.STARTING:  # noqa: ASYNC110
        await asyncio.sleep(0)
    first.cancel()
    status = await task.run(2, Reason("test"))
    assert (status.state, status.attempt) == (TaskState.RUNNING, 1)


async def test_a_disk_that_fills_up_after_the_trial_prevents_no_restart(
    settings_of: Callable[..., AgentSettings], spec: TaskSpec, small_disk: Path
) -> None:
    settings = settings_of(W1, state_dir=small_disk)
    files = settings.files
    files.folder.mkdir(parents=True)
    supervisor = Supervisor(replace(spec, state=files.shim_state, lock=files.shim_lock, log=files.log), lambda _: None)
    task = LocalTask(settings, Journal(files.journal), supervisor, ProbeReports(W1))
    await task.run(2, Reason("test"))
    await task.check(3, True)
    fill(small_disk)
    await task.fence(3, Reason("test"), verb=Verb.RESTART)
    assert (await task.run(3, Reason("test"))).state is TaskState.RUNNING
    assert Journal(files.journal).entry.task_generation == 3
    await supervisor.stop("the test is over")
    state = read_state(files.shim_state)
    assert state is not None and (state.generation, state.requested) == (3, True)


async def test_a_fence_ends_what_is_older_and_keeps_what_is_not(task: LocalTask) -> None:
    await task.run(2, Reason("test"))
    assert (await task.fence(2, Reason("test"))).state is TaskState.RUNNING
    assert (await task.fence(3, Reason("test"))).state is TaskState.EXITED
    with pytest.raises(Overtaken, match="worker:1 is in generation 3, the request is for 2"):
        await task.fence(2, Reason("test"))


async def test_a_start_is_awaited_from_a_restarts_stop_up_to_the_start_also_by_the_next_agent(task: LocalTask) -> None:
    assert (await task.run(2, Reason("test"))) and task.unstarted() is None
    await task.fence(3, Reason("test"), verb=Verb.RESTART)
    assert task.unstarted() is not None
    heir = LocalTask(task._settings, Journal(task._settings.files.journal), task._supervisor, ProbeReports(W1))
    await heir.adopt()
    assert heir.unstarted() is not None
    assert (await task.run(3, Reason("test"))) and task.unstarted() is None
    await task.fence(4, Reason("test"), verb=Verb.STOP)
    assert task.unstarted() is None


async def test_nothing_starts_a_task_in_the_generation_in_which_it_was_stopped(task: LocalTask) -> None:
    await task.run(2, Reason("test"))
    await task.fence(3, Reason("test"), verb=Verb.STOP)
    for ask in (task.run(3, Reason("other")), task.fence(3, Reason("other"), verb=Verb.RESTART)):
        with pytest.raises(Overtaken, match="worker:1 was stopped in generation 3, and is not started in it"):
            await ask
    assert (await task.fence(3, Reason("test"), verb=Verb.STOP)).state is TaskState.EXITED
    assert (await task.run(4, Reason("test"))).state is TaskState.RUNNING


async def test_the_agents_own_start_yields_to_a_request_of_the_lead(task: LocalTask) -> None:
    await task.fence(5, Reason("test"))
    await task.join(1, Reason("test"))
    assert (await task.generation(), (await task.status()).state) == (5, TaskState.PENDING)


@pytest.mark.parametrize("generation", [0, 1 << 21, (1 << 64) - 1])
async def test_a_generation_far_ahead_is_refused_and_harms_nothing(task: LocalTask, generation: int) -> None:
    first = await task.run(1, Reason("test"))
    for ask in (task.fence, task.run):
        with pytest.raises(GangError, match=f"the request is for {generation}"):
            await ask(generation, Reason("test"))
    assert (await task.status(), await task.generation()) == (first, 1)


async def test_an_agent_that_ends_starts_nothing_more(task: LocalTask) -> None:
    await task.run(1, Reason("test"))
    await task.drain()
    with pytest.raises(Leaving, match="is ending: start it again"):
        await task.run(2, Reason("test"))


async def test_a_start_under_way_is_ended_with_its_agent(task: LocalTask) -> None:
    starting = asyncio.create_task(task.run(1, Reason("test")))
    while await task.generation() == 0:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await task.drain()
    await asyncio.wait([starting])
    assert (await task.status()).state is not TaskState.RUNNING


async def test_the_disk_of_the_program_is_waited_for_by_a_thread(
    task: LocalTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_trial, "why_not_startable", lambda *_: time.sleep(0.5))
    checking, ticks = asyncio.create_task(task.check(1, is_start=True)), 0
    while not checking.done():
        await asyncio.sleep(0.05)
        ticks += 1
    assert ticks >= 5


async def test_an_agent_whose_journal_cannot_be_written_ends_its_task_all_the_same(
    task: LocalTask, settings_of: Callable[..., AgentSettings], caplog: pytest.LogCaptureFixture
) -> None:
    await task.run(1, Reason("test"))
    shutil.rmtree(settings_of(W1).files.folder)
    await task.drain()
    assert (await task.status()).state is TaskState.EXITED
    assert "give --restart to have its next agent start it again" in caplog.text
