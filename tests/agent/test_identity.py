"""Strangers: agents of other runs and clusters at an address, and state of other experiments. All agents are real."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from running_agents import W0, W1, agent, agent_process, command, named, peer_of, runs, status_when, stub, until
from tfscale.agent import wire
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.network.greetings import Answer
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.supervisor import SupervisionError
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2

MakeCluster = Callable[[int], ClusterSpec]
MakeSettings = Callable[..., AgentSettings]
OTHER = (sys.executable, "-c", "import time; print('other', flush=True); time.sleep(60)")
_APPLY = agent_pb2.ApplyRequest
_REQUESTS: list[tuple[str, Any]] = [
    ("Watch", agent_pb2.WatchRequest(schema_version=1)),
    ("Describe", agent_pb2.DescribeRequest()),
    ("Restart", agent_pb2.TasksRequest(tasks=["worker:0"])),
    ("Stop", agent_pb2.TasksRequest(tasks=["worker:0"])),
    ("Start", agent_pb2.TasksRequest(tasks=["worker:0"])),
    ("FollowLog", agent_pb2.FollowLogRequest(tail=1)),
    ("Stack", agent_pb2.StackRequest()),
    ("Profile", agent_pb2.ProfileRequest(seconds=1)),
    ("Apply", _APPLY(target=_APPLY.TARGET_STOPPED, generation=9)),
    ("Apply", _APPLY(target=_APPLY.TARGET_RUNNING, generation=9)),
    ("Apply", _APPLY(target=_APPLY.TARGET_STOPPABLE, generation=9)),
    ("ReportFailure", agent_pb2.FailureReport(task="worker:0")),
]
_UNARY = ("Describe", "Stack", "Apply", "ReportFailure")


async def refusal(service: Any, method: str, request: Any) -> str:
    """Return the words with which the agent refuses a request that is for another."""
    call = getattr(service, method)(request, timeout=5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call if method in _UNARY else [reply async for reply in call]
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND, (method, caught.value)
    return caught.value.details() or ""


def with_stranger(own: ClusterSpec, stranger: AgentSettings) -> ClusterSpec:
    """Return the cluster with the stranger's agent at the address of worker 1's."""
    return replace(own, agents={**own.agents, W1: stranger.listen})


async def test_no_request_for_another_task_run_or_cluster_is_answered(
    make_cluster: MakeCluster, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings = make_settings(make_cluster(1), W0)
    own = settings.identity
    others = [replace(own, run="b"), replace(own, task="worker:7"), replace(own, fingerprint="77777777")]
    async with agent(settings), stub(settings) as service:
        before = await runs(settings)
        for other in others:
            for method, request in _REQUESTS:
                request.to.CopyFrom(wire.identity_message(other))
                why = await refusal(service, method, request)
                assert why.startswith(f"this is {own}, and the request is for {other}: ")
        after = await runs(settings)
    assert (after.pid, after.generation) == (before.pid, before.generation)
    assert len([line for line in caplog.messages if "the request is for" in line]) == len(others)  # each once


async def test_an_order_names_for_whom_it_is(make_cluster: MakeCluster, make_settings: MakeSettings) -> None:
    settings = make_settings(make_cluster(1), W0)
    async with agent(settings), stub(settings) as service:
        before = await runs(settings)
        for request in (agent_pb2.TasksRequest(tasks=["worker:0"]), _APPLY(target=_APPLY.TARGET_STOPPED, generation=9)):
            method = "Restart" if isinstance(request, agent_pb2.TasksRequest) else "Apply"
            assert "does not say whom it is for" in await refusal(service, method, request)
        described = await service.Describe(agent_pb2.DescribeRequest())
        assert (described.run, described.task, described.fingerprint) == (
            settings.run,
            "worker:0",
            settings.identity.fingerprint,
        )
        assert (await runs(settings)).pid == before.pid


async def test_a_lead_whose_file_names_the_agent_of_a_stranger_leaves_it_alone(
    make_cluster: MakeCluster, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = make_settings(make_cluster(1), W0, run="theirs")
    spec = with_stranger(make_cluster(2), stranger)
    lead = make_settings(spec, W0, run="ours")
    async with agent(stranger):
        before = await runs(stranger)
        async with agent(lead):
            await runs(lead)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await command(lead, "Restart", "worker:1")
        after = await runs(stranger)
    assert (after.pid, after.generation) == (before.pid, before.generation)
    both = f"this is {stranger.identity}, and the request is for {make_settings(spec, W1, run='ours').identity}: "
    why = caught.value.details() or ""
    assert why.startswith("nothing was stopped, and the restart not begun: ") and both in why
    assert any(line.startswith(f"the agent at {stranger.listen} refuses: {both}") for line in caplog.messages)


async def test_agents_of_one_run_with_different_cluster_files_say_so(
    make_cluster: MakeCluster, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    spec = make_cluster(2)
    lead = make_settings(spec, W0)
    newer = replace(spec, tasks={W0: spec.tasks[W0], W1: make_cluster(1).tasks[W0]})
    worker = make_settings(newer, W1)
    async with agent(lead):
        await runs(lead)
        async with agent(worker):
            await runs(worker)
    assert not any("does not answer" in line for line in caplog.messages)
    said = [line for line in caplog.messages if line.startswith(f"the agent at {lead.listen} refuses: ")]
    assert said == [
        f"the agent at {lead.listen} refuses: this is {lead.identity}, and the request is for "
        f"{replace(worker.identity, task='worker:0')}: give both the same [cluster], or correct [agents]"
    ]


async def test_a_stranger_is_no_neighbour(make_cluster: MakeCluster, make_settings: MakeSettings) -> None:
    stranger = make_settings(make_cluster(1), W0)
    spec = with_stranger(make_cluster(2), stranger)
    theirs, ours = peer_of(stranger, W0), Peer(spec, "ours", W1, ChannelOpener(spec, False, None))
    async with agent(stranger), asyncio.timeout(60):
        while await theirs.greet(5) is not Answer.AGENT:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert await ours.greet(5) is Answer.HOST
    await asyncio.gather(theirs.close(), ours.close())


@pytest.mark.usefixtures("source_roots")
async def test_an_experiment_of_the_same_name_in_another_cluster_leaves_the_first_alone(
    make_cluster: MakeCluster, make_settings: MakeSettings
) -> None:
    first, second = (make_settings(make_cluster(1), W0) for _ in range(2))
    with agent_process(first) as process:
        before = await runs(first)
        process.kill()
        process.wait()
        async with agent(second):
            status = await runs(second)
            assert (status.pid != before.pid, status.generation) == (True, 1)
        async with agent(first):
            assert (await runs(first)).pid == before.pid  # adopted: it runs as before


@pytest.mark.usefixtures("source_roots")
async def test_a_task_that_runs_another_command_is_adopted_only_if_asked_for(
    make_cluster: MakeCluster,
    make_settings: MakeSettings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = make_settings(make_cluster(1), W0)
    second = replace(first, command=OTHER)
    with agent_process(first) as process:
        before = await runs(first)
        process.kill()
        process.wait()
        folder = Path.cwd()
        with pytest.raises(SupervisionError, match=r"runs already, with another command: .*'up'.*--adopt"):
            async with agent(replace(second, listen=make_cluster(1).agents[W0])):
                pass
        elsewhere = replace(first, listen=make_cluster(1).agents[W0], working_folder=tmp_path)
        with pytest.raises(SupervisionError, match=f"'up'.* in {folder}: give --adopt"):
            async with agent(elsewhere):
                pass
        async with agent(replace(second, adopt=True)):
            assert (await runs(second)).pid == before.pid
            async with stub(second) as service:
                described = await service.Describe(agent_pb2.DescribeRequest(to=named(second)))
                assert described.command == [*first.command]
                await command(second, "Restart", "worker:0")
                described = await service.Describe(agent_pb2.DescribeRequest(to=named(second)))
                assert described.command == [*OTHER]
    assert any("runs another command: " in line and "a restart starts" in line for line in caplog.messages)


@pytest.mark.usefixtures("source_roots")
async def test_a_task_whose_state_was_removed_is_left_as_it_is_and_nobody_is_told_to_end_it(
    make_cluster: MakeCluster, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfscale.agent.supervision.supervisor._ADOPTION_TIMEOUT", 0.2)
    settings = make_settings(make_cluster(1), W0)
    with agent_process(settings) as process:
        before = await runs(settings)
        process.kill()
        process.wait()
        await until(lambda: b'"task_pid"' in settings.files.shim_state.read_bytes())  # it writes no state after that
        kept = settings.files.shim_state.read_bytes()
        settings.files.shim_state.unlink()
        with pytest.raises(SupervisionError, match=r"this task runs, but its state in .* is missing or damaged"):
            async with agent(replace(settings, listen=make_cluster(1).agents[W0])):
                pass
        settings.files.shim_state.write_bytes(kept)
        async with agent(settings):
            assert (await runs(settings)).pid == before.pid


@pytest.mark.usefixtures("source_roots")
async def test_the_end_of_another_command_is_not_shown_as_the_own(
    make_cluster: MakeCluster, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tfscale")
    first = make_settings(make_cluster(1), W0, command=(sys.executable, "-c", "import time; time.sleep(2)"))
    with agent_process(first) as process:
        await runs(first)
        await status_when(first, lambda status: status.state is TaskState.EXITED)
        process.kill()
        process.wait()
        async with agent(first):
            status = await status_when(first, lambda status: status.state is TaskState.EXITED)
            assert status.generation == 1  # the same command: a finished run does not begin again
    with agent_process(first) as process:
        await runs(first)
        process.kill()
        process.wait()
        await asyncio.sleep(2.5)
        async with agent(second := replace(first, command=OTHER)):
            assert (await runs(second)).generation > 1
    assert any("the last task of this run was of another command" in line for line in caplog.messages)
