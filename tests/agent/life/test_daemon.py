"""The life of agents with real tasks, in one process, called over real gRPC."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from report_connection import connected
from running_agents import W0, W1, W2, agent, command, frame_when, named, runs, says, status_when, stub
from tfscale.agent.cluster.journal import Intent, Journal
from tfscale.agent.life import departure, first_start
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_state import read_state
from tfscale.agent.telemetry.host_collector import HostCollector
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.host_sample import HostSample
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2


async def test_three_agents_begin_in_one_generation_whoever_comes_first(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = [settings_of(task) for task in (W1, W0, W2)]
    async with AsyncExitStack() as stack:
        for each in settings:
            await stack.enter_async_context(agent(each))
            await asyncio.sleep(0.1)
        statuses = await asyncio.gather(*map(runs, settings))
    assert [status.generation for status in statuses] == [1, 1, 1]


async def test_a_restart_brings_the_gang_to_the_next_generation(settings_of: Callable[..., AgentSettings]) -> None:
    settings = [settings_of(task) for task in (W0, W1, W2)]
    async with AsyncExitStack() as stack:
        for each in settings:
            await stack.enter_async_context(agent(each))
        before = await asyncio.gather(*map(runs, settings))
        progress = await command(settings[0], "Restart", "worker:1", expected=1)
        after = await asyncio.gather(*map(runs, settings))
    assert list(progress[0].tasks) == ["worker:0", "worker:1", "worker:2"]
    assert progress[-1].stage == agent_pb2.STAGE_DONE
    assert [status.generation for status in after] == [2, 2, 2]
    assert not {status.pid for status in before} & {status.pid for status in after}
    assert progress[-2].at - progress[0].at < 3 < progress[-1].at - progress[0].at


async def test_a_shim_that_is_stopped_is_told_within_seconds(
    settings_of: Callable[..., AgentSettings], caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(settings := settings_of(W0)):
        await runs(settings)
        state = read_state(settings.files.shim_state)
        assert state is not None
        os.kill(state.shim_pid, signal.SIGSTOP)
        told = f"its shim (process {state.shim_pid}) is stopped"
        await status_when(settings, lambda _: any(line.startswith(told) for line in caplog.messages))


async def test_a_restart_goes_on_without_its_caller(settings_of: Callable[..., AgentSettings]) -> None:
    settings = [settings_of(task) for task in (W0, W1, W2)]
    async with AsyncExitStack() as stack:
        for each in settings:
            await stack.enter_async_context(agent(each))
        await asyncio.gather(*map(runs, settings))
        async with stub(settings[0]) as service:
            async for _ in service.Restart(agent_pb2.TasksRequest(tasks=["worker:0"], to=named(settings[0]))):
                break
        after = await asyncio.gather(*(status_when(each, lambda s: s.generation == 2 and s.pid) for each in settings))
    assert {status.state for status in after} == {TaskState.RUNNING}


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("an agent that is not there", "the agent of worker:2 at"),
        ("a program that was removed", "No such file or directory"),
        ("a disk that takes nothing", "cannot be written"),
    ],
)
async def test_a_restart_that_could_not_be_carried_out_costs_nothing(
    settings_of: Callable[..., AgentSettings], tmp_path: Path, trouble: str, words: str
) -> None:
    program = tmp_path / "train"
    program.write_text("#!/bin/sh\necho up\nexec sleep 60\n")
    program.chmod(0o755)
    settings = [settings_of(task, command=(str(program),)) for task in (W0, W1, W2)]
    async with AsyncExitStack() as stack:
        settings = settings[:2] if trouble == "an agent that is not there" else settings
        for each in settings:
            await stack.enter_async_context(agent(each))
        before = await asyncio.gather(*map(runs, settings))
        await asyncio.gather(*(says(each, "up") for each in settings))  # the shell has read its program
        if trouble == "a program that was removed":
            program.unlink()
        if trouble == "a disk that takes nothing":
            settings[1].files.journal.with_name("worker-1.agent.json.room").mkdir()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await command(settings[0], "Restart", "worker:1")
        after = await asyncio.gather(*map(runs, settings))
    assert [status.pid for status in before] == [status.pid for status in after]
    why = caught.value.details() or ""
    assert why.startswith("nothing was stopped, and the restart not begun: ") and words in why


async def test_a_restart_whose_task_ends_at_once_is_no_success(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings], tmp_path: Path
) -> None:
    path = tmp_path / "changed"
    program = f"import os, sys, time; time.sleep(0.5 if os.path.exists({str(path)!r}) else 60); sys.exit(3)"
    settings = make_settings(make_cluster(1), W0, command=(sys.executable, "-c", program))
    async with agent(settings):
        await runs(settings)
        path.touch()
        *_, running, last = await command(settings, "Restart", "worker:0")
    assert (running.stage, last.stage) == (agent_pb2.STAGE_RUNNING, agent_pb2.STAGE_FAILED)
    assert re.fullmatch(r"worker:0 exited 3, [01]\.\d s after its start; see its log", last.message)


async def test_every_change_of_state_is_a_frame_at_once(settings_of: Callable[..., AgentSettings]) -> None:
    states: list[int] = []
    async with agent(settings := settings_of(W0)), stub(settings) as service:
        watch = service.Watch(agent_pb2.WatchRequest(schema_version=1), wait_for_ready=True)
        await runs(settings)
        async for reply in watch:
            states += [frame.status.state for frame in reply.snapshot.recent] + [reply.frame.status.state]
            if telemetry_pb2.TASK_STATE_RUNNING in states:
                break
        watch.cancel()
    assert telemetry_pb2.TASK_STATE_STARTING in states


async def test_a_frame_carries_the_host_and_the_tasks_processes(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W0)), stub(settings) as service, asyncio.timeout(60):
        async for reply in service.Watch(agent_pb2.WatchRequest(schema_version=1), wait_for_ready=True):
            if reply.frame.host.HasField("task"):
                host = reply.frame.host
                break
    assert host.task.processes == 1
    assert host.task.memory > 1 << 20
    assert 0 < host.memory_used < host.memory_total
    assert 0 <= host.cpu <= 1


async def test_what_the_probe_reports_is_in_the_frames(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W0)), stub(settings) as service:
        await runs(settings)
        watch = service.Watch(agent_pb2.WatchRequest(schema_version=1))
        path = Journal(settings.files.journal).entry.socket
        async with connected(Path(path)) as process, asyncio.timeout(60):
            hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=1, attempt=1, pid=1)
            steps = telemetry_pb2.StepBatch(
                subject="worker:0", reporter="worker:0", sequence=[0, 1], end=[1.0, 2.0], compute=[0.5, 0.25]
            )
            process.say(report_pb2.TaskReport(hello=hello, steps=[steps]))
            async for reply in watch:
                if reply.frame.steps:
                    break
    assert list(reply.frame.steps[0].compute) == [0.5, 0.25]
    assert list(reply.frame.steps[0].reduce) == []


async def test_a_very_long_command_is_cut_where_it_is_shown(settings_of: Callable[..., AgentSettings]) -> None:
    command = (*settings_of(W0).command, *["x" * 100_000] * 10)
    async with agent(settings := settings_of(W0, command=command)), stub(settings) as service:
        await runs(settings)
        assert (await service.Describe(agent_pb2.DescribeRequest())).ByteSize() < 10_000


async def test_exit_with_task_answers_the_tasks_code(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0, command=(sys.executable, "-c", "import sys; sys.exit(42)"), exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(60):
        assert await asyncio.shield(running) == 42


async def test_exit_with_task_of_a_missing_program_is_127(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0, command=("no-such-program",), exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(60):
        assert await asyncio.shield(running) == 127


async def test_a_clean_end_begins_anew_and_an_unattended_one_is_only_reported(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W0, command=(sys.executable, "-c", "pass"))
    ended = lambda status: status.state is TaskState.EXITED  # noqa: E731
    for generation in (1, 2):
        async with agent(settings):
            assert (await status_when(settings, ended)).generation == generation
    await Journal(settings.files.journal).update(drained=False)
    async with agent(settings):
        assert (await status_when(settings, ended)).generation == 2
    await Journal(settings.files.journal).update(drained=False)
    async with agent(replace(settings, restart=True)):
        assert (await status_when(settings, lambda s: ended(s) and s.generation == 3)).exit is not None


@pytest.mark.parametrize("text", ["", "{", '{"generation": 1}'])
async def test_a_run_whose_state_is_damaged_does_not_begin_again(
    settings_of: Callable[..., AgentSettings], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(W0, command=(sys.executable, "-c", "pass"))
    ended = lambda status: status.state is TaskState.EXITED  # noqa: E731
    async with agent(settings):
        await status_when(settings, ended)
    await Journal(settings.files.journal).update(drained=False)
    settings.files.shim_state.write_text(text)
    async with agent(settings):
        status = await status_when(settings, lambda status: status.state is TaskState.LOST)
    assert status.generation == 1 and "is damaged: whether it has finished is not known" in status.reason
    assert "give --restart to run it again" in caplog.text
    async with agent(replace(settings, restart=True)):
        assert (await status_when(settings, ended)).generation == 2


async def test_a_task_whose_lead_is_away_starts_in_its_own_generation(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_start, "_LEAD_PATIENCE", 0.2)
    settings = settings_of(W1)
    async with agent(settings):
        assert (await runs(settings)).generation == 1
    lead = settings.cluster.agents[W0]
    assert f"the agent of worker:0 at {lead} does not answer: the task starts in its own generation 1" in caplog.text


async def test_an_agent_that_is_asked_twice_to_end_kills_its_task(settings_of: Callable[..., AgentSettings]) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    settings = settings_of(W0, command=(sys.executable, "-c", deaf), grace=60.0)
    settings.files.folder.mkdir(parents=True)
    running = asyncio.create_task((twice := Daemon(settings)).run())
    await says(settings, "\ndeaf\n")
    twice.leave()
    await status_when(settings, lambda status: status.state is TaskState.STOPPING)
    twice.leave()
    async with asyncio.timeout(60):
        await running
    state = read_state(settings.files.shim_state)
    assert state is not None and state.signal == signal.SIGKILL


async def test_an_agent_that_nobody_watches_leaves_once_its_task_has_ended(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departure, "_UNWATCHED", 0.5)
    settings = settings_of(W0, command=(sys.executable, "-c", "import time; time.sleep(2)"), exit_unwatched=True)
    async with agent(settings) as running, stub(settings) as service, asyncio.timeout(60):
        watch = service.Watch(agent_pb2.WatchRequest(schema_version=1), wait_for_ready=True)
        async for reply in watch:
            if reply.frame.status.state == telemetry_pb2.TASK_STATE_EXITED:
                break
        await asyncio.sleep(2.0)
        assert not running.done()  # a console watches
        watch.cancel()
        await asyncio.shield(running)


async def test_an_agent_killed_just_before_it_started_its_task_goes_on_in_that_generation(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W0)
    settings.files.folder.mkdir(parents=True, exist_ok=True)
    intent = Intent("restart", ("worker:0",), 2, True, "by request")
    await Journal(settings.files.journal).update(generation=2, task_generation=2, attempt=1, intent=intent)
    async with agent(settings):
        assert (await runs(settings)).generation == 2


async def test_a_sample_that_fails_is_told_once_and_ends_nothing(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sample, failures = HostCollector.sample, 3

    def failing(collector: HostCollector, task_pid: int | None, *, goes_on: bool) -> HostSample:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return sample(collector, task_pid, goes_on=goes_on)

    monkeypatch.setattr(HostCollector, "sample", failing)
    async with agent(settings_of(W0)):
        await frame_when(settings_of(W0), lambda frame: not frame.HasField("host"))
        await frame_when(settings_of(W0), lambda frame: frame.HasField("host"))
    assert caplog.text.count("sample failed, trying again in a second") == 1
