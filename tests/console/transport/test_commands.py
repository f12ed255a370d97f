"""Orders, given to fake agents over real gRPC."""

from __future__ import annotations

import pytest
from fake_agent import FakeCluster
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.transport.commands import AgentCommands
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.task_status import Stage

FIRST, SECOND = Task(Role.WORKER, 0), Task(Role.WORKER, 1)


async def test_a_restart_is_the_leads_and_is_told_moment_by_moment() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        told = [progress async for progress in AgentCommands(channels).order("restart", [SECOND])]
        await channels.close()
    assert (told[0].stage, told[-1].stage) == (Stage.PLANNED, Stage.DONE)
    assert set(told[0].tasks) == {FIRST, SECOND}
    assert cluster.generation == 2


async def test_where_the_leads_agent_is_down_another_is_asked_to_carry_the_order() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        await cluster.agents[FIRST].stop()
        with pytest.raises(CommandError, match=r"cannot restart: the agent of worker:1 .*: the lead is worker:0"):
            async for _ in AgentCommands(channels).order("restart", [SECOND]):
                pass
        await channels.close()
    assert [request.to.task for request in cluster.agents[SECOND].requests] == ["worker:1"]


async def test_a_lead_that_is_down_is_one_clear_line() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        for task in (FIRST, SECOND):
            await cluster.agents[task].stop()
        with pytest.raises(CommandError, match=r"cannot restart: the agent of worker:0 .*is tfscale-agent running"):
            async for _ in AgentCommands(channels).order("restart", [SECOND]):
                pass
        await channels.close()


async def test_a_stack_comes_from_the_tasks_own_agent() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        stack = await AgentCommands(channels).stack(Task.parse("worker:1"))
        assert stack.text.endswith("worker:1")
        cluster.kill(Task.parse("worker:1"))
        with pytest.raises(CommandError, match=r"no stack: the agent of worker:1 at .*: the task does not run"):
            await AgentCommands(channels).stack(Task.parse("worker:1"))
        await channels.close()


async def test_a_profile_comes_from_the_tasks_own_agent_moment_by_moment() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        moments = [moment async for moment in AgentCommands(channels).profile(SECOND, 2.0)]
        assert [moment.doing for moment in moments] == ["capturing for 2 s", "writing", "written"]
        assert (moments[-1].file, moments[-1].bytes) == ("/profiles/a.xplane.pb", 1_200_000)
        cluster.kill(SECOND)
        with pytest.raises(CommandError, match=r"no profile: the agent of worker:1 at .*: no probe listens"):
            async for _ in AgentCommands(channels).profile(SECOND, 2.0):
                pass
        await channels.close()


async def test_each_command_names_whom_it_is_for() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(cluster.spec, insecure=False)
        async for _ in AgentCommands(channels).order("restart", [SECOND]):
            pass
        channels.runs[FIRST] = "digits"  # as its agent has described itself meanwhile
        async for _ in AgentCommands(channels).order("restart", [SECOND]):
            pass
        await channels.close()
        names = [(each.to.run, each.to.task, each.to.fingerprint) for each in cluster.agents[FIRST].requests]
    assert names == [(run, "worker:0", cluster.spec.fingerprint) for run in ("", "digits")]
