"""Real agents with real tasks, in one process, spoken to over real gRPC."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from report_connection import connected
from tfscale.agent import wire
from tfscale.agent.cluster.journal import Intent, Journal
from tfscale.agent.daemon import Daemon, DaemonError, sole_agent
from tfscale.agent.serving.servers import ServerError
from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.host_collector import HostCollector
from tfscale.core.cluster import ClusterSpec
from tfscale.core.credentials import open_channel
from tfscale.core.records import HostSample, TaskState, TaskStatus
from tfscale.core.task import Task
from tfscale.v1 import agent_pb2, agent_pb2_grpc, report_pb2, telemetry_pb2

STACK_SIGNAL = signal.SIGRTMIN + 5
STACKED = (
    sys.executable,
    "-c",
    f"""import faulthandler, os, time
faulthandler.register({STACK_SIGNAL}, open(os.environ["TFSCALE_STACKS"], "a"))
print("listens")
def linger():
    time.sleep(60)
linger()""",
)
W0, W1, W2 = (Task.parse(f"worker:{index}") for index in range(3))


@pytest.fixture
def cluster(make_cluster: Callable[[int], ClusterSpec]) -> ClusterSpec:
    return make_cluster(3)


@pytest.fixture
def settings_of(cluster: ClusterSpec, make_settings: Callable[..., AgentSettings]) -> Callable[..., AgentSettings]:
    def make(task: Task, **changes: object) -> AgentSettings:
        return make_settings(cluster, task, **changes)

    return make


@asynccontextmanager
async def agent(settings: AgentSettings) -> AsyncIterator[asyncio.Task[int]]:
    """An agent until the context ends; what it answers is the exit status."""
    settings.files.folder.mkdir(parents=True, exist_ok=True)
    daemon = Daemon(settings)
    running = asyncio.create_task(daemon.run())
    try:
        yield running
    finally:
        daemon.leave()
        async with asyncio.timeout(10):
            await running


@asynccontextmanager
async def stub(settings: AgentSettings) -> AsyncIterator[agent_pb2_grpc.AgentAsyncStub]:
    async with open_channel(settings.listen, settings.cluster) as channel:
        yield agent_pb2_grpc.AgentStub(channel)


async def frame_when(settings: AgentSettings, reached: Callable[[telemetry_pb2.Frame], object]) -> telemetry_pb2.Frame:
    """The first frame in the agent's stream for which `reached` holds."""
    request = agent_pb2.WatchRequest(schema_version=1)
    async with stub(settings) as service, asyncio.timeout(10):
        async for reply in service.Watch(request, wait_for_ready=True):
            frames = reply.snapshot.recent[-1:] if reply.HasField("snapshot") else [reply.frame]
            for frame in frames:
                if reached(frame):
                    return frame
    raise AssertionError("the stream ended")


async def status_when(settings: AgentSettings, reached: Callable[[TaskStatus], object]) -> TaskStatus:
    """The first status in the agent's stream for which `reached` holds."""
    return wire.status_record(
        (await frame_when(settings, lambda frame: reached(wire.status_record(frame.status)))).status
    )


async def runs(settings: AgentSettings) -> TaskStatus:
    return await status_when(settings, lambda status: status.state is TaskState.RUNNING)


async def command(settings: AgentSettings, verb: str, *tasks: str, expected: int = 0) -> list[agent_pb2.Progress]:
    request = agent_pb2.TasksRequest(tasks=tasks, reason="test", expected_generation=expected)
    async with stub(settings) as service, asyncio.timeout(10):
        return [progress async for progress in getattr(service, verb)(request)]


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
    assert progress[-1].at - progress[0].at < 3


async def test_a_restart_goes_on_without_its_caller(settings_of: Callable[..., AgentSettings]) -> None:
    settings = [settings_of(task) for task in (W0, W1, W2)]
    async with AsyncExitStack() as stack:
        for each in settings:
            await stack.enter_async_context(agent(each))
        await asyncio.gather(*map(runs, settings))
        async with stub(settings[0]) as service:
            async for _ in service.Restart(agent_pb2.TasksRequest(tasks=["worker:0"])):
                break
        after = await asyncio.gather(*(status_when(each, lambda s: s.generation == 2 and s.pid) for each in settings))
    assert {status.state for status in after} == {TaskState.RUNNING}


@pytest.mark.parametrize(
    ("verb", "tasks", "expected", "code", "words"),
    [
        ("Restart", ["worker:9"], 0, grpc.StatusCode.INVALID_ARGUMENT, "no such task"),
        ("Restart", ["banana"], 0, grpc.StatusCode.INVALID_ARGUMENT, "role:index"),
        ("Stop", [], 0, grpc.StatusCode.INVALID_ARGUMENT, "name at least one"),
        ("Restart", ["worker:0"], 9, grpc.StatusCode.FAILED_PRECONDITION, "generation 1, not 9"),
    ],
)
async def test_wrong_requests_are_refused_with_a_reason(
    settings_of: Callable[..., AgentSettings],
    verb: str,
    tasks: list[str],
    expected: int,
    code: grpc.StatusCode,
    words: str,
) -> None:
    async with agent(settings := settings_of(W0)):
        await runs(settings)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await command(settings, verb, *tasks, expected=expected)
    assert caught.value.code() is code
    assert words in (caught.value.details() or "")


async def test_other_agents_name_the_lead(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W1)):
        await status_when(settings, lambda status: status.state is TaskState.PENDING)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await command(settings, "Restart", "worker:1")
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "ask the agent of worker:0 at" in (caught.value.details() or "")


async def test_apply_is_idempotent_and_refuses_older_generations(settings_of: Callable[..., AgentSettings]) -> None:
    request = agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_RUNNING, generation=5)
    async with agent(settings := settings_of(W1)), stub(settings) as service:
        first = await service.Apply(request, wait_for_ready=True)
        again = await service.Apply(request)
        assert (first.state, first.pid, first.generation) == (again.state, again.pid, 5)
        request.generation = 4
        with pytest.raises(grpc.aio.AioRpcError, match="generation 5, the request is for 4"):
            await service.Apply(request)
        fence = agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPED, generation=5)
        assert (await service.Apply(fence)).state == telemetry_pb2.TASK_STATE_RUNNING
        fence.generation = 6
        assert (await service.Apply(fence)).state == telemetry_pb2.TASK_STATE_EXITED


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
    async with agent(settings := settings_of(W0)), stub(settings) as service, asyncio.timeout(5):
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
        async with connected(Path(path)) as process, asyncio.timeout(5):
            hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=1, attempt=1, pid=1)
            steps = telemetry_pb2.StepBatch(subject="worker:0", sequence=[0, 1], end=[1.0, 2.0], compute=[0.5, 0.25])
            process.say(report_pb2.TaskReport(hello=hello, steps=[steps]))
            async for reply in watch:
                if reply.frame.steps:
                    break
    assert list(reply.frame.steps[0].compute) == [0.5, 0.25]
    assert list(reply.frame.steps[0].reduce) == []


async def test_the_stack_is_the_reporters_while_it_reports(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W0, command=STACKED)), stub(settings) as service:
        pid = (await runs(settings)).pid
        assert await no_stack(service) == (grpc.StatusCode.FAILED_PRECONDITION, "no probe listens")
        await status_when(settings, lambda _: "listens" in settings.files.log.read_text())
        path = Journal(settings.files.journal).entry.socket
        async with connected(Path(path)) as process, asyncio.timeout(10):
            identity = {"schema_version": 1, "task": "worker:0", "generation": 1, "attempt": 1}
            hello = report_pb2.Hello(**identity, pid=pid, stack_signal=STACK_SIGNAL)
            steps = telemetry_pb2.StepBatch(subject="worker:0", sequence=[0], end=[1.0])
            watch = service.Watch(agent_pb2.WatchRequest(schema_version=1))
            process.say(report_pb2.TaskReport(hello=hello, steps=[steps]))
            await process.accepted()
            async for reply in watch:
                if reply.frame.steps:
                    break
            stack = await service.Stack(agent_pb2.StackRequest())
            assert stack.pid == pid and "in linger" in stack.text.partition("\n\n")[0]
            os.kill(pid, signal.SIGSTOP)
            assert await no_stack(service) == (
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"process {pid} wrote no stack in 3 s",
            )
            await process.end()
            assert await no_stack(service) == (grpc.StatusCode.FAILED_PRECONDITION, "no probe listens")


async def no_stack(service: agent_pb2_grpc.AgentAsyncStub) -> tuple[grpc.StatusCode, str] | None:
    """How a request for the stack is refused, None where it is not."""
    try:
        await service.Stack(agent_pb2.StackRequest())
    except grpc.aio.AioRpcError as error:
        return error.code(), re.split(" in the task:|: it", error.details() or "")[0]
    return None


async def test_health_and_description(settings_of: Callable[..., AgentSettings], cluster: ClusterSpec) -> None:
    settings = settings_of(W0)
    async with agent(settings), open_channel(settings.listen, cluster) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="tfscale.v1.Agent")
        answer = await health.Check(request, wait_for_ready=True)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        description = await agent_pb2_grpc.AgentStub(channel).Describe(agent_pb2.DescribeRequest())
    assert (description.task, description.lead, description.generation) == ("worker:0", "worker:0", 1)
    assert description.log_path == str(settings.files.log)


async def test_the_log_can_be_followed(settings_of: Callable[..., AgentSettings]) -> None:
    program = "import time\nfor i in range(100): print('line', i, flush=True); time.sleep(0.02)"
    settings = settings_of(W0, command=(sys.executable, "-c", program))
    lines: list[str] = []
    async with agent(settings), stub(settings) as service, asyncio.timeout(8):
        await runs(settings)
        async for chunk in service.FollowLog(agent_pb2.FollowLogRequest(tail=2, follow=True)):
            lines += chunk.lines
            if "line 30" in lines:
                break
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line")]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


async def test_exit_with_task_answers_the_tasks_code(settings_of: Callable[..., AgentSettings]) -> None:
    settings = settings_of(W0, command=(sys.executable, "-c", "import sys; sys.exit(42)"), exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(5):
        assert await asyncio.shield(running) == 42


async def test_exit_with_task_of_a_missing_program_is_127(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings_of(W0, command=("no-such-program",), exit_with_task=True)) as running, asyncio.timeout(5):
        assert await asyncio.shield(running) == 127


async def test_a_clean_end_begins_anew_and_an_unattended_one_is_only_reported(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W0, command=(sys.executable, "-c", "pass"))
    ended = lambda status: status.state is TaskState.EXITED  # noqa: E731
    for generation in (1, 2):
        async with agent(settings):
            assert (await status_when(settings, ended)).generation == generation
    Journal(settings.files.journal).update(drained=False)
    async with agent(settings):
        assert (await status_when(settings, ended)).generation == 2
    Journal(settings.files.journal).update(drained=False)
    async with agent(replace(settings, restart=True)):
        assert (await status_when(settings, lambda s: ended(s) and s.generation == 3)).exit is not None


async def test_an_agent_killed_just_before_it_started_its_task_goes_on_in_that_generation(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W0)
    settings.files.folder.mkdir(parents=True, exist_ok=True)
    intent = Intent("restart", ("worker:0",), 2, True, "by request")
    Journal(settings.files.journal).update(generation=2, task_generation=2, attempt=1, intent=intent)
    async with agent(settings):
        assert (await runs(settings)).generation == 2


async def test_a_sample_that_fails_is_told_once_and_ends_nothing(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sample, failures = HostCollector.sample, 3

    def failing(collector: HostCollector, task_pid: int | None) -> HostSample:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return sample(collector, task_pid)

    monkeypatch.setattr(HostCollector, "sample", failing)
    async with agent(settings_of(W0)):
        await frame_when(settings_of(W0), lambda frame: not frame.HasField("host"))
        await frame_when(settings_of(W0), lambda frame: frame.HasField("host"))
    assert caplog.text.count("no sample this second") == 1


async def test_a_busy_port_is_one_clear_error_before_anything_starts(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings_of(W0)) as running:
        await runs(settings_of(W0))
        other = replace(settings_of(W1), listen=settings_of(W0).listen)
        with pytest.raises(ServerError, match="Address already in use"):
            await Daemon(other).run()
        assert not running.done()


def test_a_second_agent_for_the_task_is_refused(settings_of: Callable[..., AgentSettings], tmp_path: Path) -> None:
    settings = settings_of(W0)
    with sole_agent(settings), pytest.raises(DaemonError, match="has an agent with pid"), sole_agent(settings):
        pass
    assert (tmp_path / "test" / "worker-0.agent.lock").exists()
