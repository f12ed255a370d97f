"""Recovery without a console: real agents with real tasks, in one process, over real gRPC."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loopback import free_addresses
from report_connection import connected
from running_agents import W0, W1, W2, agent, agent_process, command, kill, runs, status_when
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.recovery import acting_lead, failure_reporter
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.recovery_policy import OnHang, RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.failure import hang_limits
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.v1 import report_pb2, telemetry_pb2

MakeSettings = Callable[..., AgentSettings]
CHIEF, PS, EVALUATOR = Task(Role.CHIEF, 0), Task(Role.PS, 0), Task(Role.EVALUATOR, 0)
FAILING = (sys.executable, "-c", "import sys; sys.exit(3)")


def policy(kind: RestartPolicy = RestartPolicy.ON_FAILURE, **changes: Any) -> RecoveryPolicy:
    return RecoveryPolicy(dict.fromkeys(Role, kind), **{"backoff": 0.2, "most_backoff": 0.5, **changes})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_lead, "SETTLE", 0.5)
    monkeypatch.setattr(acting_lead, "_KEPT", 0.5)
    monkeypatch.setattr(failure_reporter, "_AGAIN", 0.5)
    monkeypatch.setattr(failure_reporter, "_LEAD_PATIENCE", 1.0)


@pytest.fixture
def servers(make_settings: MakeSettings) -> Callable[[RecoveryPolicy], dict[Task, AgentSettings]]:
    """Return the settings of a chief, two workers and a parameter server."""
    return lambda recovery: made([CHIEF, W0, W1, PS], recovery, make_settings)


def made(tasks: list[Task], recovery: RecoveryPolicy, make_settings: MakeSettings) -> dict[Task, AgentSettings]:
    """Return the settings of a cluster of these tasks."""
    addresses = map(parse_address, free_addresses(2 * len(tasks)))
    spec = ClusterSpec(
        "test", {task: next(addresses) for task in tasks}, {task: next(addresses) for task in tasks}, recovery=recovery
    )
    return {task: make_settings(spec, task) for task in tasks}


@pytest.fixture
def workers(
    make_cluster: Callable[[int], ClusterSpec], make_settings: MakeSettings
) -> Callable[..., dict[Task, AgentSettings]]:
    """Return the settings of three synchronous workers."""

    def make(recovery: RecoveryPolicy, **changes: Any) -> dict[Task, AgentSettings]:
        spec = replace(make_cluster(3), recovery=recovery)
        return {task: make_settings(spec, task, **changes) for task in spec.tasks}

    return make


@asynccontextmanager
async def agents(settings: Iterable[AgentSettings]) -> AsyncIterator[None]:
    """Run these agents; end them all at once."""
    contexts = [agent(each) for each in settings]
    await asyncio.gather(*(context.__aenter__() for context in contexts))
    try:
        yield
    finally:
        await asyncio.gather(*(context.__aexit__(None, None, None) for context in contexts))


async def all_run(settings: Mapping[Task, AgentSettings]) -> dict[Task, TaskStatus]:
    return dict(zip(settings, await asyncio.gather(*map(runs, settings.values())), strict=True))


async def all_in(settings: Mapping[Task, AgentSettings], generation: int) -> dict[Task, TaskStatus]:
    """Return the statuses of the tasks once all run in this generation."""
    there = lambda status: status.state is TaskState.RUNNING and status.generation == generation  # noqa: E731
    return dict(
        zip(settings, await asyncio.gather(*(status_when(each, there) for each in settings.values())), strict=True)
    )


async def test_two_workers_that_fail_restart_the_gang_once(workers: Callable[..., dict[Task, AgentSettings]]) -> None:
    settings = workers(policy())
    async with agents(settings.values()):
        before = await all_run(settings)
        kill(before[W1])
        await asyncio.sleep(0.1)
        kill(before[W2])
        after = await all_in(settings, 2)
        await asyncio.sleep(2.0)
        assert await all_run(settings) == after
    reason = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    assert {status.reason for status in after.values()} == {reason}


async def test_a_worker_of_servers_restarts_alone(
    servers: Callable[[RecoveryPolicy], dict[Task, AgentSettings]],
) -> None:
    settings = servers(policy())
    async with agents(settings.values()):
        before = await all_run(settings)
        kill(before[W1])
        new = await status_when(settings[W1], lambda status: status.generation == 2 and status.pid)
        after = await all_run(settings)
    assert after[W1].pid == new.pid != before[W1].pid
    assert all(after[task] == before[task] for task in (CHIEF, W0, PS))


async def test_a_server_restarts_with_the_chief(
    servers: Callable[[RecoveryPolicy], dict[Task, AgentSettings]],
) -> None:
    settings = servers(policy())
    async with agents(settings.values()):
        before = await all_run(settings)
        kill(before[PS])
        await all_in({task: settings[task] for task in (CHIEF, PS)}, 2)
        after = await all_run(settings)
    assert all(after[task] == before[task] for task in (W0, W1))


async def test_an_evaluator_restarts_alone(make_settings: MakeSettings) -> None:
    settings = made([CHIEF, W0, EVALUATOR], policy(), make_settings)
    async with agents(settings.values()):
        before = await all_run(settings)
        kill(before[EVALUATOR])
        new = await status_when(settings[EVALUATOR], lambda status: status.generation == 2 and status.pid)
        after = await all_run(settings)
    assert after[EVALUATOR].pid == new.pid != before[EVALUATOR].pid
    assert all(after[task] == before[task] for task in (CHIEF, W0))


async def test_a_task_stays_as_it_ended_without_a_policy(workers: Callable[..., dict[Task, AgentSettings]]) -> None:
    for recovery in (None, policy(RestartPolicy.NEVER)):
        settings = {task: replace(each, cluster=replace(each.cluster, recovery=recovery), run=f"run-{recovery is None}")
                    for task, each in workers(policy()).items()}  # fmt: skip
        async with agents(settings.values()):
            kill((await all_run(settings))[W1])
            await asyncio.sleep(2.0)
            status = await status_when(settings[W1], lambda _: True)
            assert (status.state, status.generation, status.reason) == (TaskState.EXITED, 1, "")


async def test_restarts_that_bring_nothing_end_with_a_reason_and_93(
    workers: Callable[..., dict[Task, AgentSettings]],
) -> None:
    settings = workers(policy(without_progress=2, backoff=2.5, most_backoff=2.5), exit_with_task=True)
    settings[W1] = replace(settings[W1], command=FAILING)
    told: list[TaskStatus] = []
    async with agent(settings[W0]), agent(settings[W2]), agent(settings[W1]) as running, asyncio.timeout(60):
        watching = asyncio.create_task(status_when(settings[W1], lambda status: told.append(status)))
        assert await asyncio.shield(running) == 93
        watching.cancel()
    assert {status.generation for status in told if status.generation} == {1, 2, 3}
    assert any(status.restart_at is not None for status in told)
    assert any("restart 2 of 10 within 1 h" in status.reason for status in told)
    why = "given up after worker:1 exited 3: the last 2 restarts brought neither a newer checkpoint nor a higher step"
    assert told[-1].reason == why


async def test_spent_restarts_stay_spent_for_the_next_agent(
    make_cluster: Callable[[int], ClusterSpec], make_settings: MakeSettings
) -> None:
    spec = replace(make_cluster(1), recovery=policy(max_restarts=1))
    settings = make_settings(spec, W0, command=FAILING)
    gave_up = lambda status: status.reason.startswith("given up")  # noqa: E731
    async with agent(settings):
        status = await status_when(settings, gave_up)
        assert status.generation == 2 and "the only restart within 1 h is spent" in status.reason
    await Journal(settings.files.journal).update(drained=False)
    async with agent(settings):
        assert (await status_when(settings, gave_up)).generation == 2
        await command(settings, "Restart", "worker:0")
        assert (await status_when(settings, lambda s: gave_up(s) and s.generation > 2)).generation == 4


async def test_a_permanent_exit_is_left_as_it_is(make_cluster: Callable[[int], ClusterSpec],
                                                make_settings: MakeSettings) -> None:  # fmt: skip
    spec = replace(make_cluster(1), recovery=policy(RestartPolicy.EXIT_CODE))
    settings = make_settings(spec, W0, command=FAILING, exit_with_task=True)
    async with agent(settings) as running, asyncio.timeout(60):
        assert await asyncio.shield(running) == 3


async def test_a_gang_of_which_one_has_finished_does_not_begin_anew(
    workers: Callable[..., dict[Task, AgentSettings]],
) -> None:
    settings = workers(policy())
    settings[W0] = replace(settings[W0], command=(sys.executable, "-c", "pass"))
    async with agents(settings.values()):
        await status_when(settings[W0], lambda status: status.state is TaskState.EXITED)
        kill(await runs(settings[W1]))
        status = await status_when(settings[W1], lambda status: "not restarted" in status.reason)
    assert status.reason == "not restarted: worker:0 has finished, and would begin anew"


async def test_who_stops_the_tasks_meanwhile_is_obeyed(workers: Callable[..., dict[Task, AgentSettings]]) -> None:
    settings = workers(policy(backoff=3.0, most_backoff=3.0))
    async with agents(settings.values()):
        kill((await all_run(settings))[W1])
        await status_when(settings[W1], lambda status: status.restart_at is not None)
        await command(settings[W0], "Stop", "worker:1")
        await asyncio.sleep(4.0)
        for each in settings.values():
            assert (await status_when(each, lambda _: True)).state is TaskState.EXITED


async def test_an_agent_that_does_not_answer_is_waited_for(workers: Callable[..., dict[Task, AgentSettings]]) -> None:
    settings = workers(policy())
    there = [settings[W0], settings[W1]]
    async with agents(there):
        status = await runs(settings[W1])
        kill(status)
        waits = lambda status: "the agent of worker:2 at" in status.reason  # noqa: E731
        assert "does not answer: start it" in (await status_when(settings[W1], waits)).reason
        async with agent(settings[W2]):
            after = await all_in(settings, 2)
    assert {status.generation for status in after.values()} == {2}


@pytest.mark.usefixtures("source_roots")
async def test_another_agent_decides_while_that_of_the_lead_is_dead(
    servers: Callable[[RecoveryPolicy], dict[Task, AgentSettings]],
) -> None:
    settings = servers(policy())
    document = {"policy": "OnFailure", "backoff": "0.2s"}
    others = [each for task, each in settings.items() if task != CHIEF]
    with agent_process(settings[CHIEF], recovery=document) as lead:
        chief = await runs(settings[CHIEF])
        async with agents(others):
            before = (await asyncio.gather(*map(runs, others)))[1]
            lead.kill()
            lead.wait()
            kill(before)
            new = await status_when(settings[W1], lambda status: status.generation == 2 and status.pid)
            assert "after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h" in new.reason
            with agent_process(settings[CHIEF], recovery=document):
                assert (await runs(settings[CHIEF])).pid == chief.pid  # it follows
                kill(new)
                last = await status_when(settings[W1], lambda status: status.generation > 2 and status.pid)
    assert last.generation == 3 and "restart 2 of 10 within 1 h" in last.reason  # it learnt of the first


@pytest.mark.usefixtures("source_roots")
@pytest.mark.parametrize("task", [W0, W1], ids=str)
async def test_an_agent_that_comes_back_reports_what_failed_without_it(
    workers: Callable[..., dict[Task, AgentSettings]], task: Task
) -> None:
    settings = workers(policy())
    document = {"policy": "OnFailure", "backoff": "0.2s"}
    with agent_process(settings[task], recovery=document) as gone:
        async with agents([each for other, each in settings.items() if other != task]):
            before = await all_run(settings)
            gone.kill()
            gone.wait()
            kill(before[task])
            with agent_process(settings[task], recovery=document):
                after = await all_in(settings, 2)
    assert f"after {task} was killed by SIGKILL" in after[W2].reason


@asynccontextmanager
async def training(
    settings: AgentSettings,
    *,
    is_inside: bool,
    state: telemetry_pb2.ProbeState = telemetry_pb2.PROBE_STATE_MEASURING,
    activities: Iterable[telemetry_pb2.Activity] = (),
) -> AsyncIterator[None]:
    """Report some steps of the task as its probe would, then none; the reports go on."""
    path = Path(Journal(settings.files.journal).entry.socket or "")
    async with connected(path) as process:
        hello = report_pb2.Hello(schema_version=1, task=str(settings.task), generation=1, attempt=1, pid=1)
        name = str(settings.task)
        steps = telemetry_pb2.StepBatch(subject=name, reporter=name, sequence=range(9), end=map(float, range(1, 10)))
        collective = telemetry_pb2.Collective(entered=9 + is_inside, left=9)
        probe = telemetry_pb2.ProbeStatus(state=state)
        report = report_pb2.TaskReport(hello=hello, steps=[steps], collective=collective, probe=probe)
        report.activities.extend(activities)
        process.say(report)
        yield


@pytest.mark.parametrize("on_hang", OnHang)
async def test_a_hang_is_written_down_and_ended_where_the_policy_says_so(
    workers: Callable[..., dict[Task, AgentSettings]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    on_hang: OnHang,
) -> None:
    # Between two looks of an agent, and with the time of one more look until the others' reports: as in earnest.
    monkeypatch.setattr(hang_limits, "SHORTEST", 1.5)
    monkeypatch.setattr(acting_lead, "SETTLE", 1.5)
    settings = workers(policy(on_hang=on_hang))
    async with agents(settings.values()), AsyncExitStack() as stack:
        before = await all_run(settings)
        for task in settings:
            await stack.enter_async_context(training(settings[task], is_inside=task != W1))
        if on_hang is OnHang.RESTART:
            after = await all_in(settings, 2)
            assert re.match(r"restarted by itself after worker:1 made no step for \d", after[W0].reason)
        else:
            await asyncio.sleep(5.0)
            assert await all_run(settings) == before
    (path,) = settings[W0].files.folder.glob("hang-*.stacks")
    assert "===== 3 tasks: worker:0, worker:1, worker:2" in path.read_text()
    assert caplog.text.count(f"the stacks of all tasks are in {path}") == 1


async def test_a_stopped_task_is_no_hang_until_it_has_gone_on_for_a_while(
    workers: Callable[..., dict[Task, AgentSettings]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hang_limits, "SHORTEST", 2.0)
    settings = workers(policy(on_hang=OnHang.RESTART))
    async with agents(settings.values()), AsyncExitStack() as stack:
        before = await all_run(settings)
        pid = before[W1].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        for task in settings:
            await stack.enter_async_context(training(settings[task], is_inside=task != W1))
        await asyncio.sleep(7.0)
        assert await all_run(settings) == before
        told = "which is no hang: worker:1 was stopped by a signal: let its process go on"
        assert caplog.text.count(told) == 1
        assert not list(settings[W0].files.folder.glob("hang-*.stacks"))
        os.kill(pid, signal.SIGCONT)
        assert "made no step" in (await all_in(settings, 2))[W0].reason


async def test_workers_wait_for_a_chief_that_evaluates_alone(
    workers: Callable[..., dict[Task, AgentSettings]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hang_limits, "SHORTEST", 1.5)
    settings = workers(policy(on_hang=OnHang.RESTART))
    evaluates = telemetry_pb2.Activity(kind=telemetry_pb2.ACTIVITY_KIND_EVALUATION, begin=time.time())
    async with agents(settings.values()), AsyncExitStack() as stack:
        before = await all_run(settings)
        for task in settings:
            work = [evaluates] if task == W0 else []
            await stack.enter_async_context(training(settings[task], is_inside=task != W0, activities=work))
        await asyncio.sleep(7.0)
        assert await all_run(settings) == before
        assert caplog.text.count("which is no hang: worker:0 evaluates") == 1


async def test_a_program_in_which_nobody_waits_may_do_other_things_than_to_train(
    workers: Callable[..., dict[Task, AgentSettings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_limits, "SHORTEST", 1.0)
    settings = workers(policy(on_hang=OnHang.RESTART))
    async with agents(settings.values()), AsyncExitStack() as stack:
        before = await all_run(settings)
        for each in settings.values():
            await stack.enter_async_context(training(each, is_inside=False))
        await asyncio.sleep(5.0)
        assert await all_run(settings) == before


async def test_a_probe_that_gave_up_is_no_hang(
    workers: Callable[..., dict[Task, AgentSettings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_limits, "SHORTEST", 1.0)
    settings = workers(policy(on_hang=OnHang.RESTART))
    async with agents(settings.values()), AsyncExitStack() as stack:
        before = await all_run(settings)
        for task in settings:
            disabled = telemetry_pb2.PROBE_STATE_DISABLED
            await stack.enter_async_context(training(settings[task], is_inside=task != W1, state=disabled))
        await asyncio.sleep(4.0)
        assert await all_run(settings) == before
