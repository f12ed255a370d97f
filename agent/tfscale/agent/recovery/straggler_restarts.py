"""Restarts of slow workers, for which consoles ask by the policy `on_straggler`: the lead's part of it.

An agent does not diagnose. It checks what only agents know: its own policy, its earlier restarts of this kind, and the
restarts that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tfscale.agent.cluster.gang import Counting, Gang, GangError, Verb
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.placement.mover import Mover
from tfscale.agent.recovery.acting_lead import ActingLead, restart_of
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.placement.placement import PlacementError
from tfscale.core.cluster.recovery_policy import OnStraggler, RecoveryPolicy
from tfscale.core.cluster.restart import keeps_training, plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Reason


class StragglerRestarts:
    """Restarts by the policy of the lead's cluster file. `mover` is None where tasks stay where that file has them."""

    def __init__(
        self,
        *,
        spec: ClusterSpec,
        policy: RecoveryPolicy,
        gang: Gang,
        acting: ActingLead,
        strategy: Callable[[], str | None],
        mover: Mover | None,
    ) -> None:
        self._spec, self._policy = spec, policy
        self._gang, self._acting, self._strategy, self._mover = gang, acting, strategy, mover
        self._deciding = asyncio.Lock()

    async def begin(
        self, task: Task, asked: str, reason: str, expected: int | None, *, was_worth_it: bool
    ) -> Operation:
        """Begin the restart of a slow task by the policy that the caller `asked` for, and count it.

        `was_worth_it` tells that its last such restart has gained enough. Raises GangError where it is refused, and
        what Gang.command and Mover.without raise.
        """
        async with self._deciding:
            await self._gang.catch_up()
            scope = self._scope(task)
            await self._check(task, scope, asked, was_worth_it=was_worth_it)
            budget = self._acting.budget_of(scope)
            needs_progress = not keeps_training(self._spec, self._strategy(), scope)
            if why := budget.gave_up or budget.why_spent(self._policy, needs_progress=needs_progress):
                raise GangError(f"{task} is not restarted for being slow: {why}")
            reason = f"{reason}, {budget.which(self._policy)}"
            return await self._begun(task, Reason(reason, str(task)), expected, restart_of(budget, str(task)))

    def _scope(self, task: Task) -> tuple[Task, ...]:
        """Return all tasks that restart. Raises RestartError for a task that is not in the cluster."""
        together = plan_restart(self._spec, self._strategy(), [task])
        if self._policy.on_straggler is OnStraggler.REPLACE:
            return tuple(each for each in self._spec.tasks if each.role in MOVABLE or each in together)
        return together

    async def _check(self, task: Task, scope: tuple[Task, ...], asked: str, *, was_worth_it: bool) -> None:
        """Raise GangError where the policy, an earlier restart or the state of the tasks forbids it."""
        policy = self._policy.on_straggler
        if policy is OnStraggler.TELL or asked != policy:
            raise GangError(f'[recovery] of {self._spec.lead} says on_straggler = "{policy}": a console restarts by it')
        if str(task) in self._gang.counts.slow and not was_worth_it:
            raise GangError(f"{task} was restarted for being slow before, and it is not known that this was worth it")
        if self._acting.is_deciding(scope):
            raise GangError("a failure of these tasks is being decided about: wait for it")
        if not await self._acting.all_run(scope):
            raise GangError("not all of its tasks run: a restart for being slow starts nothing that has ended")

    async def _begun(self, task: Task, reason: Reason, expected: int | None, counted: Counting) -> Operation:
        if self._policy.on_straggler is OnStraggler.RESTART:
            return await self._gang.command(Verb.RESTART, [task], reason, expected, counted=counted)
        if self._mover is None:
            raise GangError("tasks stay where they are: give [spares] to all agents")
        try:
            return await self._mover.without([str(task)], reason, expected, keeps_size=True, counted=counted)
        except PlacementError:
            raise GangError(f"no other agent is free to take {task}") from None
