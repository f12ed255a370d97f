"""Calls to the agent's service over real gRPC, and how it refuses them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from report_connection import connected
from running_agents import W0, W1, agent, command, named, runs, says, status_when, stub
from tfscale.agent import wire
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import TaskState
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


async def test_a_second_command_is_aborted_while_one_is_under_way(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> None:
    slow = ("sh", "-c", "trap 'sleep 1; exit' TERM; echo up; while :; do sleep 0.05; done")
    async with agent(settings := make_settings(make_cluster(1), W0, command=slow, grace=5.0)):
        await says(settings, "\nup\n")
        first = asyncio.create_task(command(settings, "Stop", "worker:0"))
        await status_when(settings, lambda status: status.state is TaskState.STOPPING)
        with pytest.raises(grpc.aio.AioRpcError, match="is under way") as caught:
            await command(settings, "Stop", "worker:0")
        assert (await first)[-1].stage == agent_pb2.STAGE_DONE
    assert caught.value.code() is grpc.StatusCode.ABORTED


async def test_a_field_of_a_later_version_in_a_request_is_ignored(settings_of: Callable[..., AgentSettings]) -> None:
    later = b"\xa2\x06\x05later"  # field 100, a text
    async with agent(settings := settings_of(W0)), open_channel(settings.listen, settings.cluster) as channel:
        describe = channel.unary_unary(
            "/tfscale.v1.Agent/Describe",
            request_serializer=lambda request: request.SerializeToString() + later,
            response_deserializer=agent_pb2.Description.FromString,
        )
        answer = await describe(agent_pb2.DescribeRequest(to=named(settings)), wait_for_ready=True)
    assert answer.task == "worker:0"


async def test_a_report_is_refused_where_it_is_too_long_and_without_a_policy(
    settings_of: Callable[..., AgentSettings],
) -> None:
    settings = settings_of(W0)
    report = agent_pb2.FailureReport(task="worker:0", to=named(settings))
    report.status.state = telemetry_pb2.TASK_STATE_EXITED
    async with agent(settings), stub(settings) as service:
        await runs(settings)
        with pytest.raises(grpc.aio.AioRpcError, match=r"has no \[recovery\]: give all agents the same file"):
            await service.ReportFailure(report)
        report.status.exit.log.append("x" * 200_000)
        with pytest.raises(grpc.aio.AioRpcError, match="a report has at most 131072 bytes"):
            await service.ReportFailure(report)


async def test_a_report_of_a_state_that_nobody_knows_is_refused(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> None:
    recovery = RecoveryPolicy({Role.WORKER: RestartPolicy.ON_FAILURE})
    settings = make_settings(replace(make_cluster(1), recovery=recovery), W0)
    report = agent_pb2.FailureReport(task="worker:0", to=named(settings))
    async with agent(settings), stub(settings) as service:
        await runs(settings)
        for state, task in ((0, "worker:0"), (77, "worker:0"), (5, "worker:9"), (5, "banana")):
            report.task, report.status.state = task, state  # type: ignore[assignment]
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await service.ReportFailure(report)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("verb", "tasks", "without", "words"),
    [
        ("Restart", ["worker:0"], [], r"the cluster file of worker:0 has no \[recovery\]"),
        ("Restart", ["worker:0", "worker:1"], [], "on_straggler is a restart of one task"),
        ("Restart", ["worker:0"], ["worker:0"], "on_straggler is a restart of one task"),
        ("Stop", ["worker:0"], [], "on_straggler is a restart of one task"),
    ],
)
async def test_a_restart_by_a_policy_that_is_not_there_or_of_no_one_task_is_refused(
    settings_of: Callable[..., AgentSettings], verb: str, tasks: list[str], without: list[str], words: str
) -> None:
    async with agent(settings := settings_of(W0)), stub(settings) as service:
        before = await runs(settings)
        by_policy = agent_pb2.ByPolicy(on_straggler="restart")
        request = agent_pb2.TasksRequest(tasks=tasks, without=without, by_policy=by_policy, to=named(settings))
        with pytest.raises(grpc.aio.AioRpcError, match=words):
            _ = [progress async for progress in getattr(service, verb)(request)]
        assert (await runs(settings)).pid == before.pid


async def test_an_agent_that_is_alone_names_the_agents_that_its_order_needs(
    settings_of: Callable[..., AgentSettings],
) -> None:
    async with agent(settings := settings_of(W1)):
        await status_when(settings, lambda status: status.state is TaskState.PENDING)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await command(settings, "Restart", "worker:1")
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert re.search("the agent of worker:0 at .* does not answer: start it", caught.value.details() or "")


async def test_apply_is_idempotent_and_refuses_older_generations(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W1)), stub(settings) as service:
        target, to = agent_pb2.ApplyRequest.TARGET_RUNNING, named(settings)
        request = agent_pb2.ApplyRequest(target=target, generation=5, to=to)
        first = await service.Apply(request, wait_for_ready=True)
        again = await service.Apply(request)
        assert (first.state, first.pid, first.generation) == (again.state, again.pid, 5)
        request.generation = 4
        with pytest.raises(grpc.aio.AioRpcError, match="generation 5, the request is for 4"):
            await service.Apply(request)
        fence = agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPED, generation=5, to=to)
        assert (await service.Apply(fence)).state == telemetry_pb2.TASK_STATE_RUNNING
        fence.generation = 6
        assert (await service.Apply(fence)).state == telemetry_pb2.TASK_STATE_EXITED


async def test_the_stack_is_the_reporters_while_it_reports(settings_of: Callable[..., AgentSettings]) -> None:
    async with agent(settings := settings_of(W0, command=STACKED)), stub(settings) as service:
        pid = (await runs(settings)).pid
        assert await no_stack(service) == (grpc.StatusCode.FAILED_PRECONDITION, "no probe listens")
        await says(settings, "listens")
        path = Journal(settings.files.journal).entry.socket
        async with connected(Path(path)) as process, asyncio.timeout(60):
            identity = {"schema_version": 1, "task": "worker:0", "generation": 1, "attempt": 1}
            hello = report_pb2.Hello(**identity, pid=pid, stack_signal=STACK_SIGNAL)
            steps = telemetry_pb2.StepBatch(subject="worker:0", reporter="worker:0", sequence=[0], end=[1.0])
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
    """Return how a request for the stack is refused, None where it is not."""
    try:
        await service.Stack(agent_pb2.StackRequest())
    except grpc.aio.AioRpcError as error:
        return error.code(), re.split(" in the task:|: it", error.details() or "")[0]
    return None


async def test_the_log_can_be_followed(settings_of: Callable[..., AgentSettings]) -> None:
    program = "import time\nfor i in range(100): print('line', i, flush=True); time.sleep(0.02)"
    settings = settings_of(W0, command=(sys.executable, "-c", program))
    lines: list[str] = []
    async with agent(settings), stub(settings) as service, asyncio.timeout(60):
        await runs(settings)
        async for chunk in service.FollowLog(agent_pb2.FollowLogRequest(tail=2, follow=True)):
            lines += chunk.lines
            if "line 30" in lines:
                break
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line")]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


_ODD: list[tuple[str, Any]] = [
    *(("Restart", agent_pb2.TasksRequest(tasks=[name])) for name in ("", "worker:", "worker:-1", "worker:\u00b2")),
    ("Restart", agent_pb2.TasksRequest(tasks=["worker:" + "9" * 5000])),
    ("Restart", agent_pb2.TasksRequest(tasks=["worker:0"], expected_generation=(1 << 64) - 1)),
    ("Stop", agent_pb2.TasksRequest(tasks=["x" * 1_000_000])),
    ("Apply", agent_pb2.ApplyRequest(target=99, generation=1)),  # type: ignore[arg-type]
    ("Apply", agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_STOPPED, generation=(1 << 64) - 1)),
    ("Apply", agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_RUNNING, generation=(1 << 53) + 1)),
    ("Apply", agent_pb2.ApplyRequest(target=agent_pb2.ApplyRequest.TARGET_RUNNING, generation=0)),
    ("FollowLog", agent_pb2.FollowLogRequest(tail=(1 << 32) - 1)),
    *(("Profile", agent_pb2.ProfileRequest(seconds=float(seconds))) for seconds in ("nan", "inf", "-1", "0")),
]


async def test_no_value_of_any_field_ends_in_unknown_or_harms_the_task(
    settings_of: Callable[..., AgentSettings], caplog: pytest.LogCaptureFixture
) -> None:
    refusals = []
    async with agent(settings := settings_of(W0)), stub(settings) as service, asyncio.timeout(60):
        before = await runs(settings)
        for method, request in _ODD:
            request.to.CopyFrom(named(settings))
            call = getattr(service, method)(request)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call if method == "Apply" else [reply async for reply in call]
            refusals.append((method, caught.value.code(), len(caught.value.details() or "")))
        assert (await runs(settings)).pid == before.pid
    assert {code for _, code, _ in refusals} <= {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
    }, refusals
    assert max(length for _, _, length in refusals) < 1000, refusals
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("asked", "answered"), [(0, 3), (2, 2), (3, 3), (4, 3)])
async def test_a_console_of_a_neighbouring_version_is_answered_in_the_lower_of_both(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch, asked: int, answered: int
) -> None:
    monkeypatch.setattr(wire, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(wire, "OLDEST_SCHEMA", 2)
    async with agent(settings := settings_of(W0)), stub(settings) as service, asyncio.timeout(60):
        replies = service.Watch(agent_pb2.WatchRequest(schema_version=asked), wait_for_ready=True)
        assert [(await replies.read()).schema_version for _ in range(2)] == [answered] * 2


async def test_a_console_that_is_too_old_is_refused(
    settings_of: Callable[..., AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "OLDEST_SCHEMA", 2)
    monkeypatch.setattr(wire, "SCHEMA_VERSION", 3)
    async with agent(settings := settings_of(W0)), stub(settings) as service, asyncio.timeout(60):
        with pytest.raises(grpc.aio.AioRpcError, match="the console reads up to 1: update it") as refused:
            await service.Watch(agent_pb2.WatchRequest(schema_version=1), wait_for_ready=True).read()
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
