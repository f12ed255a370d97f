"""Reports of failures and hangs of a task that runs: its own agent is asked before anything is restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from report_connection import Connection, connected
from running_agents import W0, W1, agent, frame_when, kill, named, runs, status_when, stub
from tfscale.agent import wire
from tfscale.agent.cluster.failure_report import FailureReport
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.recovery import acting_lead
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.recovery_policy import OnHang, RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role
from tfscale.core.failure import hang_limits
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.v1 import report_pb2, telemetry_pb2


@pytest.fixture
def pair(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> list[AgentSettings]:
    policy = RecoveryPolicy(
        dict.fromkeys(Role, RestartPolicy.ON_FAILURE), backoff=0.2, most_backoff=0.2, on_hang=OnHang.RESTART
    )
    spec = replace(make_cluster(2), recovery=policy)
    return [make_settings(spec, task) for task in (W0, W1)]


@pytest.mark.parametrize(("generation", "attempt"), [(1, 1), (7, 3)], ids=["its own start", "another agent's"])
async def test_a_report_about_a_task_that_runs_is_dropped_and_logged_once(
    pair: list[AgentSettings],
    generation: int,
    attempt: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(acting_lead, "SETTLE", 0.2)
    lead, _ = pair
    failed = TaskStatus(TaskState.EXITED, generation, attempt, exit=Exit(3, None, 5.0))
    async with AsyncExitStack() as stack:
        for settings in pair:
            await stack.enter_async_context(agent(settings))
        before = [await runs(settings) for settings in pair]
        async with stub(lead) as service:
            for _ in range(3):
                verdict = await service.ReportFailure(
                    wire.failure_message(FailureReport("worker:1", failed), named(lead))
                )
                assert not verdict.is_final
                await asyncio.sleep(1.0)
        assert [await runs(settings) for settings in pair] == before
        dropped = [record.getMessage() for record in caplog.records if "dropped a report" in record.getMessage()]
        assert len(dropped) == 1 and dropped[0].startswith("dropped a report that worker:1 exited 3: its own agent")
        kill(before[1])  # a failure that it tells itself is believed as before
        await status_when(pair[1], lambda status: status.state is TaskState.RUNNING and status.generation == 2)


def reduces(process: Connection, settings: AgentSettings) -> None:
    """Report that a task has just entered a reduction, as its probe would."""
    hello = report_pb2.Hello(schema_version=1, task=str(settings.task), generation=1, attempt=1, pid=1)
    collective = telemetry_pb2.Collective(entered=9, left=8, entered_at=time.time())
    process.say(report_pb2.TaskReport(hello=hello, collective=collective))


async def test_a_hang_of_a_task_that_reduces_with_the_others_is_dropped(
    pair: list[AgentSettings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acting_lead, "SETTLE", 0.2)
    monkeypatch.setattr(hang_limits, "SHORTEST", 3.0)
    lead, other = pair
    hangs = wire.failure_message(
        FailureReport("worker:0", TaskStatus(TaskState.RUNNING, 1, 1), still=300.0, is_inside=True), named(lead)
    )
    async with AsyncExitStack() as stack:
        for settings in pair:
            await stack.enter_async_context(agent(settings))
        before = [await runs(settings) for settings in pair]
        process = await stack.enter_async_context(connected(Path(Journal(other.files.journal).entry.socket or "")))
        service = await stack.enter_async_context(stub(lead))
        reduces(process, other)
        await frame_when(other, lambda frame: frame.collective.HasField("entered_at"))
        for _ in range(8):
            reduces(process, other)
            assert not (await service.ReportFailure(hangs)).is_final
            await asyncio.sleep(0.5)
        assert [await runs(settings) for settings in pair] == before
        told = (
            "made no step for 300 s, which is no hang: worker:1 reduces with the others, by the word of its own agent"
        )
        assert caplog.text.count(told) == 1
        for _ in range(12):  # nothing more is reduced: it is one
            await service.ReportFailure(hangs)
            await asyncio.sleep(0.5)
        await status_when(lead, lambda status: status.state is TaskState.RUNNING and status.generation == 2)
