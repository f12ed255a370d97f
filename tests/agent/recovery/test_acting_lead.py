"""Decisions about failures: who makes them, and how many restarts a thousand reports are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.cluster.failure_report import FailureReport
from tfscale.agent.cluster.gang import Gang, GangError, TasksEnded, Verb, lowest_living
from tfscale.agent.cluster.journal import Intent, Journal
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.cluster.restart_budget import Progress
from tfscale.agent.recovery import acting_lead
from tfscale.agent.recovery.acting_lead import ActingLead, NotActing
from tfscale.agent.recovery.hang_pauses import HangPauses
from tfscale.agent.recovery.hang_stacks import HangStacks
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import Exit, Reason, TaskState, TaskStatus

POLICY = RecoveryPolicy(dict.fromkeys(Role, RestartPolicy.ON_FAILURE), backoff=0.2, most_backoff=0.2)


class FakeMember:
    """A worker that has been killed, and that does as it is told."""

    def __init__(self) -> None:
        self.is_there, self.runs = True, asyncio.Event()
        self.of = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(None, 9, 5.0))

    async def check(self, _generation: int, _is_start: bool, /) -> None:
        if not self.is_there:
            raise GangError("worker:1 does not answer")

    async def fence(
        self, _generation: int, _reason: Reason, _unreachable: Callable[[str], None], _verb: Verb, /
    ) -> TaskStatus:
        return self.of

    async def run(self, generation: int, reason: Reason, _unreachable: Callable[[str], None], /) -> TaskStatus:
        self.of = TaskStatus(TaskState.RUNNING, generation, 1, reason=reason.text)
        self.runs.set()
        return self.of

    async def generation(self) -> int | None:
        return self.of.generation if self.is_there else None

    async def status(self) -> TaskStatus | None:
        return self.of if self.is_there else None


class Cluster:
    def __init__(self, number: int, folder: Path, task: int = 0, policy: RecoveryPolicy = POLICY) -> None:
        tasks = [Task(Role.WORKER, index) for index in range(number)]
        addresses = {each: Address("10.0.0.1", 2000 + each.index) for each in tasks}
        self.spec = ClusterSpec("test", addresses, addresses, recovery=policy)
        self.members = {each: FakeMember() for each in tasks}
        journal = Journal(folder / f"{task}.json")
        self.gang = gang = Gang(self.spec, journal, self.members, lambda: None)
        stacks = HangStacks(folder, {})
        reached = Progress()
        self.acting = ActingLead(
            spec=self.spec, policy=policy, task=tasks[task], members=self.members, gang=gang, journal=journal,
            strategy=lambda: None, reached=lambda: reached, stacks=stacks, pauses=HangPauses({}),
        )  # fmt: skip

    async def all_run(self) -> None:
        """Wait until a restart has been carried out. Raises TimeoutError after a minute."""
        async with asyncio.timeout(60):
            await asyncio.gather(*(member.runs.wait() for member in self.members.values()))
        await asyncio.sleep(0.1)

    def report(self, task: Task) -> FailureReport:
        return FailureReport(str(task), self.members[task].of)


async def test_a_thousand_reports_are_one_restart(tmp_path: Path) -> None:
    cluster = Cluster(1000, tmp_path)
    for _ in range(3):  # each agent repeats its report
        for task in cluster.spec.tasks:
            assert not (await cluster.acting.hear(cluster.report(task))).is_final
    await cluster.all_run()
    assert {member.of.generation for member in cluster.members.values()} == {2}
    reason = "restarted by itself after worker:0 was killed by SIGKILL, restart 1 of 10 within 1 h"
    assert {member.of.reason for member in cluster.members.values()} == {reason}


class StoppedElsewhere:
    """Agreement of which the newest command has stopped all tasks."""

    async def newest(self) -> int:
        return 5

    async def agree(self, _intent: Intent, _counts: RecoveryCounts, failed_in: int | None, /) -> None:
        assert failed_in == 1
        raise TasksEnded("a stop in generation 5 has ended them")

    async def confirm(self, _generation: int, /) -> None: ...
    async def hand_over(self, _placement: str, _reason: Reason, /) -> None: ...
    def follow(self) -> None: ...


async def test_tasks_that_a_stop_has_ended_since_they_failed_are_left(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path)
    cluster.gang.placer = StoppedElsewhere()
    report = cluster.report(next(iter(cluster.spec.tasks)))
    async with asyncio.timeout(60):
        while not (verdict := await cluster.acting.hear(report)).is_final:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert verdict.words == "not restarted: a stop in generation 5 has ended them"
    assert {member.of.generation for member in cluster.members.values()} == {1}


async def test_a_report_of_a_generation_that_was_left_restarts_nothing(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path)
    first, second = cluster.spec.tasks
    late = cluster.report(second)
    await cluster.acting.hear(cluster.report(first))
    await cluster.all_run()
    assert (await cluster.acting.hear(late)).words == ""
    await asyncio.sleep(0.5)
    assert {member.of.generation for member in cluster.members.values()} == {2}


async def test_a_clock_that_is_set_neither_spends_nor_renews_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(1, tmp_path, policy=replace(POLICY, max_restarts=3, without_progress=9))
    (task,) = cluster.spec.tasks
    for number, days in enumerate((0, 1, -1), 1):
        now = 1.8e9 + 86400.0 * days
        monkeypatch.setattr(acting_lead.time, "time", lambda now=now: now)
        await cluster.acting.hear(cluster.report(task))
        await cluster.all_run()
        member = cluster.members[task]
        assert f"restart {number} of 3 within 1 h" in member.of.reason
        member.runs.clear()
        member.of = replace(member.of, state=TaskState.EXITED, exit=Exit(None, 9, now))
    async with asyncio.timeout(60):
        while not (verdict := await cluster.acting.hear(cluster.report(task))).is_final:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert "all 3 restarts within 1 h are spent" in verdict.words


async def test_who_is_not_the_lowest_that_answers_names_the_one_that_is(tmp_path: Path) -> None:
    cluster = Cluster(3, tmp_path, task=2)
    first, second, third = cluster.spec.tasks
    cluster.members[first].is_there = False
    with pytest.raises(NotActing, match=r"ask the agent of worker:1 at 10\.0\.0\.1:2001"):
        await cluster.acting.hear(cluster.report(third))
    cluster.members[second].is_there = False
    await cluster.acting.hear(cluster.report(third))
    await cluster.acting.close()


async def test_who_acts_for_the_lead_leaves_all_to_it_once_it_is_back(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path, task=1, policy=replace(POLICY, backoff=4.0, most_backoff=4.0))
    lead, own = cluster.spec.tasks
    cluster.members[lead].is_there = False
    await cluster.acting.hear(cluster.report(own))
    cluster.members[lead].is_there = True
    await asyncio.sleep(acting_lead._KEPT + 1.0)
    assert not cluster.members[own].runs.is_set()
    with pytest.raises(NotActing):
        await cluster.acting.hear(cluster.report(own))


@pytest.mark.parametrize(("kind", "generation"), [(RestartPolicy.ON_FAILURE, 1), (RestartPolicy.ALWAYS, 2)])
async def test_a_gang_that_has_finished_begins_anew_only_by_the_policy_always(
    tmp_path: Path, kind: RestartPolicy, generation: int
) -> None:
    cluster = Cluster(3, tmp_path, policy=replace(POLICY, by_role={Role.WORKER: kind}))
    *finished, failed = cluster.spec.tasks
    for task in finished:
        cluster.members[task].of = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(0, None, 5.0))
    await cluster.acting.hear(cluster.report(failed))
    await asyncio.sleep(1.0)
    assert {member.of.generation for member in cluster.members.values()} == {generation}


async def test_an_agent_that_does_not_answer_is_waited_for_as_long_as_the_period(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path, policy=replace(POLICY, period=1.5))
    first, second = cluster.spec.tasks
    cluster.members[second].is_there = False
    async with asyncio.timeout(60):
        while not (verdict := await cluster.acting.hear(cluster.report(first))).is_final:
            assert verdict.words in ("", "restart 1 of 10 within 1.5 s") or "worker:1 does not answer" in verdict.words
            await asyncio.sleep(0.05)
    assert verdict.gave_up
    assert verdict.words.startswith("given up after worker:0 was killed by SIGKILL: for 1.5 s: nothing was stopped")


async def test_a_report_of_a_strange_task_is_refused(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path)
    with pytest.raises(UsageError, match="worker:7: the cluster has no such task"):
        await cluster.acting.hear(replace(cluster.report(Task(Role.WORKER, 0)), task="worker:7"))


async def test_the_lowest_that_answers_is_found_among_many(tmp_path: Path) -> None:
    cluster = Cluster(200, tmp_path)
    tasks = list(cluster.spec.tasks)
    for task in tasks[:150]:
        cluster.members[task].is_there = False
    assert await lowest_living(cluster.members, tasks) == tasks[150]
    assert await lowest_living(cluster.members, tasks[:150]) is None
