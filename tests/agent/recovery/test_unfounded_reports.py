"""Reports of failures of a task that runs: its own agent is asked before anything is restarted. All are real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from running_agents import W0, W1, agent, kill, named, runs, status_when, stub
from tfscale.agent import wire
from tfscale.agent.cluster.failure_report import FailureReport
from tfscale.agent.recovery import acting_lead
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus


@pytest.fixture
def pair(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> list[AgentSettings]:
    policy = RecoveryPolicy(dict.fromkeys(Role, RestartPolicy.ON_FAILURE), backoff=0.2, most_backoff=0.2)
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
