"""Restarts of slow workers by the policy: what the lead checks, counts and writes down."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.cluster.failure_report import FailureReport
from tfscale.agent.cluster.gang import Gang, GangError, Overtaken, Verb
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.cluster.restart_budget import Progress
from tfscale.agent.process.steady_clock import steady_time
from tfscale.agent.recovery.acting_lead import ActingLead
from tfscale.agent.recovery.hang_pauses import HangPauses
from tfscale.agent.recovery.hang_stacks import HangStacks
from tfscale.agent.recovery.straggler_restarts import StragglerRestarts
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.recovery_policy import OnStraggler, RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import Exit, Reason, TaskState, TaskStatus

POLICY = RecoveryPolicy(
    dict.fromkeys(Role, RestartPolicy.ON_FAILURE), backoff=20.0, most_backoff=20.0, on_straggler=OnStraggler.RESTART
)
W0, W1 = Task(Role.WORKER, 0), Task(Role.WORKER, 1)
REASON = "on_straggler: worker:1 1.7x slower in compute"


class FakeMember:
    """A worker that runs, and does as it is told."""

    def __init__(self) -> None:
        self.of: TaskStatus | None = TaskStatus(TaskState.RUNNING, 1, 1)

    async def check(self, _generation: int, _is_start: bool, /) -> None: ...

    async def fence(
        self, _generation: int, _reason: Reason, _unreachable: Callable[[str], None], _verb: Verb, /
    ) -> TaskStatus:
        return TaskStatus(TaskState.EXITED, 1, 1)

    async def run(self, generation: int, reason: Reason, _unreachable: Callable[[str], None], /) -> TaskStatus:
        status = TaskStatus(TaskState.RUNNING, generation, 1, reason=reason.text)
        self.of = replace(status, restarted_for=reason.restarted_for)
        return self.of

    async def generation(self) -> int | None:
        return self.of.generation if self.of else None

    async def status(self) -> TaskStatus | None:
        return self.of


class Lead:
    """Agent of worker:0 of two workers, which makes a step and a checkpoint between two restarts."""

    def __init__(self, folder: Path, policy: RecoveryPolicy = POLICY) -> None:
        addresses = {each: Address("10.0.0.1", 2000 + each.index) for each in (W0, W1)}
        spec = ClusterSpec("test", addresses, addresses, recovery=policy)
        self.members = {each: FakeMember() for each in spec.tasks}
        self.journal = Journal(folder / "journal.json")
        self.reached = Progress()
        gang = Gang(spec, self.journal, self.members, lambda: None)
        self.acting = ActingLead(
            spec=spec, policy=policy, task=W0, members=self.members, gang=gang, journal=self.journal,
            strategy=lambda: None, reached=lambda: self.reached, stacks=HangStacks(folder, {}),
            pauses=HangPauses({}),
        )  # fmt: skip
        self.restarts = StragglerRestarts(
            spec=spec, policy=policy, gang=gang, acting=self.acting, strategy=lambda: None,
            mover=None,
        )  # fmt: skip

    async def restart(self, task: Task = W1, policy: str = "restart", expected: int | None = None,
                      was_worth_it: bool = False) -> None:  # fmt: skip
        operation = await self.restarts.begin(task, policy, REASON, expected, was_worth_it=was_worth_it)
        await operation.carried_out.wait()

    @property
    def generations(self) -> list[int]:
        return [each.of.generation for each in self.members.values() if each.of is not None]


async def test_the_gang_is_restarted_and_the_restart_counted(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    await lead.restart()
    assert lead.generations == [2, 2]
    assert {each.of.reason for each in lead.members.values() if each.of} == {f"{REASON}, restart 1 of 10 within 1 h"}
    assert {each.of.restarted_for for each in lead.members.values() if each.of} == {"worker:1"}
    (budget,) = lead.journal.entry.counts.budgets
    assert budget.name == "worker:0" and len(budget.restarts) == 1 and steady_time() - budget.restarts[0] < 60
    assert Journal(tmp_path / "journal.json").entry.counts.slow == ("worker:1",)


@pytest.mark.parametrize("policy", [OnStraggler.TELL, OnStraggler.REPLACE])
async def test_what_the_leads_own_file_does_not_say_is_refused(tmp_path: Path, policy: OnStraggler) -> None:
    lead = Lead(tmp_path, replace(POLICY, on_straggler=policy))
    with pytest.raises(GangError, match=f'of worker:0 says on_straggler = "{policy}"'):
        await lead.restart()
    assert lead.generations == [1, 1]


async def test_without_another_agent_nothing_is_replaced(tmp_path: Path) -> None:
    lead = Lead(tmp_path, replace(POLICY, on_straggler=OnStraggler.REPLACE))
    with pytest.raises(GangError, match="tasks stay where they are"):
        await lead.restart(policy="replace")
    assert (lead.generations, lead.journal.entry.counts) == ([1, 1], RecoveryCounts())


async def test_the_same_worker_is_restarted_again_only_where_that_was_worth_it(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    await lead.restart()
    with pytest.raises(GangError, match="worker:1 was restarted for being slow before, and it is not known"):
        await lead.restart()
    await lead.restart(W0)
    await lead.restart(was_worth_it=True)
    assert lead.generations == [4, 4]
    assert lead.journal.entry.counts.slow == ("worker:1", "worker:0")


async def test_of_two_consoles_one_comes_first(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    await lead.restart(W1)  # its first generation that the journal knows
    await lead.restart(W0, expected=2)
    with pytest.raises(Overtaken, match="the cluster is in generation 3, not 2"):
        await lead.restart(W0, expected=2, was_worth_it=True)
    assert lead.generations == [3, 3]


async def test_a_spent_budget_forbids_it(tmp_path: Path) -> None:
    lead = Lead(tmp_path, replace(POLICY, max_restarts=2))
    await lead.restart()
    await lead.restart(was_worth_it=True)
    with pytest.raises(GangError, match="all 2 restarts within 1 h are spent"):
        await lead.restart(was_worth_it=True)
    assert lead.generations == [3, 3]


async def test_restarts_without_progress_forbid_it(tmp_path: Path) -> None:
    lead = Lead(tmp_path, replace(POLICY, without_progress=1))
    await lead.restart()
    with pytest.raises(GangError, match="the last restart brought neither a newer checkpoint nor a higher step"):
        await lead.restart(was_worth_it=True)
    lead.reached = Progress(step=10)
    await lead.restart(was_worth_it=True)
    assert lead.generations == [3, 3]


@pytest.mark.parametrize("status", [None, TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(0, None, 5.0))])
async def test_tasks_that_do_not_all_run_are_left(tmp_path: Path, status: TaskStatus | None) -> None:
    lead = Lead(tmp_path)
    lead.members[W0].of = status
    with pytest.raises(GangError, match="not all of its tasks run"):
        await lead.restart()


async def test_a_failure_that_is_being_decided_about_goes_before(tmp_path: Path) -> None:
    lead = Lead(tmp_path)
    died = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(None, 9, 5.0))
    await lead.acting.hear(FailureReport("worker:0", died))
    with pytest.raises(GangError, match="a failure of these tasks is being decided about"):
        await lead.restart()
    await lead.acting.close()


async def test_a_task_that_is_not_in_the_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("worker:7: the cluster has no such task")):
        await Lead(tmp_path).restart(Task(Role.WORKER, 7))
