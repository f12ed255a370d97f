"""The acting lead's decisions about reported failures: restart after a pause, leave, or give up.

The acting lead is the lowest task in the cluster's order whose agent answers, normally the lead. It keeps only counts,
which go with its commands to the others, and come back with their reports: agents repeat these until their tasks are
started again, so the next acting lead learns of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from tfscale.agent.cluster.failure_report import FailureReport, Verdict, unstarted_report
from tfscale.agent.cluster.gang import Busy, Counting, Gang, GangError, GangMember, TasksEnded, Verb, lowest_living
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.cluster.restart_budget import Progress, RestartBudget
from tfscale.agent.placement.mover import Mover
from tfscale.agent.process.steady_clock import steady_time
from tfscale.agent.recovery.hang_pauses import HangPauses
from tfscale.agent.recovery.hang_stacks import HangFileError, HangStacks
from tfscale.agent.recovery.host_replacement import HostReplacement
from tfscale.agent.recovery.incident import Incident
from tfscale.agent.recovery.restart_rule import why_left
from tfscale.agent.supervision.transitions import has_finished
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.many_questions import ask_each
from tfscale.core.cluster.recovery_policy import OnHang, RecoveryPolicy, RestartPolicy, time_text
from tfscale.core.cluster.restart import keeps_training, plan_finish, plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.failure.task_failure import SETTLE
from tfscale.core.records.task_status import Reason, TaskState, TaskStatus
from tfscale.core.text import listing

_logger = logging.getLogger(__name__)
_JITTER = 0.25
"""Largest random addition to a pause, as a share: clusters that failed together do not start at the same time."""
_LOOK = 1.0
"""Seconds between two looks at a command under way, or at a pause, after which a restart may follow."""
_KEPT = 3.0
"""Seconds until the agents of lower tasks are asked again whether they answer."""
_FORGOTTEN = 15.0
"""Seconds without a report after which a hang is over: agents repeat theirs every 5 s."""
_OVER = Verdict()
"""Decision made elsewhere: the tasks run, a command has come, or a lower agent answers."""


class NotActing(GangError):
    """A report for another agent, which is the acting lead."""


class ActingLead:
    """Decisions of one agent about failures, while it is the acting lead.

    `mover` is None where tasks stay where the cluster file has them.
    """

    def __init__(
        self,
        *,
        spec: ClusterSpec,
        policy: RecoveryPolicy,
        task: Task,
        members: Mapping[Task, GangMember],
        gang: Gang,
        journal: Journal,
        strategy: Callable[[], str | None],
        reached: Callable[[], Progress],
        stacks: HangStacks,
        pauses: HangPauses,
        mover: Mover | None = None,
    ) -> None:
        self._spec, self._policy, self._task = spec, policy, task
        self._members, self._gang, self._journal = members, gang, journal
        self._strategy, self._reached, self._stacks, self._pauses = strategy, reached, stacks, pauses
        self._replacement = HostReplacement(spec, policy, members, gang, mover)
        tasks = list(spec.tasks)
        self._lower = tasks[: tasks.index(task)]
        self._alone_until = 0.0
        """Time on the loop's clock up to which no lower agent is asked again whether it is there."""
        self._incidents: list[Incident] = []
        self._unfounded: set[tuple[Task, tuple[int, int]]] = set()
        """Reports of tasks that ran, by task and start, of which the log tells."""

    async def hear(self, report: FailureReport) -> Verdict:
        """Take in a report and return the verdict so far. Raises NotActing, and UsageError for an unknown task."""
        task = Task.parse(report.task)
        scope = plan_restart(self._spec, self._strategy(), [task])
        if (lower := await self._lower_agent()) is not None:
            address = self._spec.agents[lower]
            raise NotActing(f"{self._task} does not decide about failures: ask the agent of {lower} at {address}")
        now, incident = asyncio.get_running_loop().time(), self._incident_of(scope, report)
        if incident is None:
            if self._gang.commanded(task) > report.status.generation or self._is_being_started(task, report):
                return Verdict()  # a command has taken it along
            incident = Incident(scope, begun=now)
            self._incidents.append(incident)
        if not incident.is_under_way and incident.final is None:
            incident.add(task, report, report.failure(time.time()), now)
            if not (known := set(incident.scope)).issuperset(scope):
                incident.scope = tuple(each for each in self._spec.tasks if each in known.union(scope))
        if incident.driver is None:
            incident.driver = asyncio.create_task(self._drive(incident))
        return incident.verdict(now)

    def overdue_start(self) -> FailureReport | None:
        """Return the report that the own command has not started a task whose agent is gone, None before its time.

        Whoever gave the command: its other tasks have been stopped, or wait. The acting lead may be another agent.
        """
        operation = self._gang.start_under_way
        missing = None if operation is None else operation.first_missing()
        if operation is None or missing is None or missing[1] < self._policy.replace_after:
            return None
        return unstarted_report(missing[0], operation.intent.generation, missing[1])

    def is_deciding(self, tasks: Collection[Task]) -> bool:
        """Return whether a failure among these tasks is being decided about."""
        return any(each.final is None and not set(each.scope).isdisjoint(tasks) for each in self._incidents)

    async def all_run(self, tasks: Sequence[Task]) -> bool:
        """Return whether the agents of all these tasks answer that they run."""
        statuses = await self._statuses(tasks)
        return all(status is not None and status.state is TaskState.RUNNING for status in statuses)

    def budget_of(self, scope: Sequence[Task]) -> RestartBudget:
        """Return the restarts that are left now to running tasks that restart together."""
        return self._gang.counts.budget(str(scope[0])).after_end(self._reached(), steady_time(), self._policy)

    async def close(self) -> None:
        """Decide nothing more: the next acting lead does."""
        drivers = [incident.driver for incident in self._incidents if incident.driver is not None]
        for driver in drivers:
            driver.cancel()
        await asyncio.gather(*drivers, return_exceptions=True)

    def _is_being_started(self, task: Task, report: FailureReport) -> bool:
        operation = self._gang.start_under_way
        is_awaited = report.unstarted is not None and operation is not None and task in operation.tasks
        return is_awaited and self.overdue_start() is None

    async def _lower_agent(self) -> Task | None:
        """Return the first task before the own task whose agent answers, None for the acting lead."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._alone_until:
            return None
        lower = await lowest_living(self._members, self._lower)
        if lower is None:
            self._alone_until = loop.time() + _KEPT
        return lower

    def _incident_of(self, scope: tuple[Task, ...], report: FailureReport) -> Incident | None:
        """Return the incident to which a report belongs; a final incident ends with the next start of its tasks."""
        for incident in [each for each in self._incidents if set(each.scope) & set(scope)]:
            if incident.final is None:
                return incident
            has_become_a_failure = incident.is_hang and report.still is None
            is_left = report.status.generation > incident.generation or self._is_commanded(incident)
            if not (is_left or has_become_a_failure):
                return incident
            self._incidents.remove(incident)
        return None

    def _is_commanded(self, incident: Incident) -> bool:
        """Decide whether all that failed got a command since then, which makes a restart needless.

        A start of the lead leaves out a task whose agent does not answer in that moment.
        """
        generation = incident.generation
        return all(self._gang.commanded(task) > generation for task in incident.reports)

    async def _drive(self, incident: Incident) -> None:
        try:
            verdict = await self._recover(incident)
            incident.final = verdict if verdict.is_final else None
        except TfscaleError as error:
            _logger.error("a failure is left until it is reported again: %s", error)
        except Exception:
            _logger.exception("a failure is left until it is reported again")
        finally:
            incident.is_under_way, incident.due = False, None
            if incident.final is None and incident in self._incidents:
                self._incidents.remove(incident)

    async def _recover(self, incident: Incident) -> Verdict:
        """Restart the tasks of the incident as the policy says, and return the final verdict."""
        settle = SETTLE if self._may_follow(incident) else 0.0
        await asyncio.sleep(settle)
        if incident.is_hang and await self._is_over_after_pause(incident):
            return _OVER
        if incident.is_hang and not await self._may_end_hang(incident):
            return Verdict(is_final=True)
        if not incident.is_hang and await self._is_over(incident):
            return _OVER
        await self._gang.catch_up()
        budget, cordoned = self._budget(incident), await self._replacement.count(incident)
        if incident.waited:
            incident.troubled = incident.begun - incident.waited
        pause = max(0.0, _jittered(budget.pause(self._policy)) - max(settle, incident.waited))
        while (verdict := await self._decided(incident, budget)) is None:
            if pause:
                await self._wait(incident, pause, "" if incident.tries else budget.which(self._policy))
                if (verdict := await self._decided(incident, budget)) is not None:
                    break
            try:
                operation = await self._begin(incident, budget, cordoned)
            except TasksEnded as error:
                return Verdict(f"not restarted: {error}", is_final=True)
            except TfscaleError as error:
                pause = self._pause_after(error, incident, budget)
                continue
            if await self._carried_out(incident, operation):
                return _OVER
            budget = self._budget(incident)
            pause = _jittered(budget.pause(self._policy))
        return verdict

    async def _decided(self, incident: Incident, budget: RestartBudget) -> Verdict | None:
        """Return the verdict about the incident; None while its tasks are to be restarted."""
        if await self._is_over(incident):
            return _OVER
        if incident.trouble and asyncio.get_running_loop().time() - incident.begun > self._policy.period:
            return await self._give_up(incident, budget, f"for {time_text(self._policy.period)}: {incident.trouble}")
        return await self._why_left(incident, budget)

    def _pause_after(self, error: TfscaleError, incident: Incident, budget: RestartBudget) -> float:
        """Return the seconds up to the next try, after a restart that could not begin."""
        incident.tries += 1
        if isinstance(error, Busy):
            return _LOOK
        incident.trouble = str(error)
        self._note_trouble(incident, f"{error}; it is tried again{self._replacement.plan}")
        pause = _jittered(budget.pause(self._policy, incident.tries))
        left = self._replacement.due_in(incident)
        return pause if left is None else min(pause, max(_LOOK, left))

    def _note_trouble(self, incident: Incident, words: str) -> None:
        if incident.troubled is None:
            incident.troubled = asyncio.get_running_loop().time() - incident.waited
        self._tell(incident, f"{words}; {incident.obstacle}" if incident.obstacle else words)

    def _may_follow(self, incident: Incident) -> bool:
        """Decide whether this failure may follow from another failure whose report is still to come."""
        is_certain = any(failure.primary or failure.unstarted for failure in incident.failures.values())
        is_alone = len(self._spec.tasks) == 1 or keeps_training(self._spec, self._strategy(), incident.scope)
        return not (is_certain or is_alone)

    async def _is_over_after_pause(self, incident: Incident) -> bool:
        """Wait while a task has a reason to make no step, and return whether the incident is over after that."""
        told = ""
        while incident.is_hang and (why := await self._pauses.of(incident.scope)):
            if why != told:
                _logger.warning("%s %s, which is no hang: %s", *incident.cause(), why)
            incident.words = told = why
            await asyncio.sleep(_LOOK)
            if await self._is_over(incident):
                return True
        incident.words = ""
        return False

    async def _may_end_hang(self, incident: Incident) -> bool:
        """Write the stacks of all tasks down, and return whether the policy ends this hang.

        Where nobody waits the program may do other things than to train: no policy ends that.
        """
        task, how = incident.cause()
        event = f"{task} {how}, reported by {listing([str(each) for each in incident.reports])}"
        try:
            where = f"the stacks of all tasks are in {await self._stacks.write(event)}"
        except HangFileError as error:
            where = str(error)
        _logger.warning("%s; %s", event, where)
        waits = any(report.is_inside for report in incident.reports.values())
        return waits and self._policy.on_hang is OnHang.RESTART

    def _budget(self, incident: Incident) -> RestartBudget:
        """Return the restarts left to these tasks after this failure."""
        kept = self._gang.counts.budget(str(incident.scope[0]))
        if kept.gave_up:
            return kept if incident.generation <= kept.generation else RestartBudget(kept.name)
        return kept.after_end(self._progress(incident), steady_time(), self._policy)

    def _progress(self, incident: Incident) -> Progress:
        return incident.reached.with_other(self._reached())

    async def _is_over(self, incident: Incident) -> bool:
        """Decide whether somebody else has decided about the incident, or the tasks run again."""
        if self._is_commanded(incident) or await self._lower_agent() is not None:
            return True
        if incident.launched:  # in vain: some of its tasks may be started, and others not
            statuses = await self._statuses(incident.scope)
            return all(status is not None and status.generation >= incident.launched for status in statuses)
        if incident.is_hang:
            return asyncio.get_running_loop().time() - incident.heard > _FORGOTTEN
        failed = tuple(incident.failures)
        now = dict(zip(failed, await self._statuses(failed), strict=True))
        self._drop_unfounded(incident, now)
        return all(
            (status := now.get(task)) is not None and (status.generation, status.attempt) > incident.reports[task].key
            for task in incident.failures
        )

    def _drop_unfounded(self, incident: Incident, statuses: Mapping[Task, TaskStatus | None]) -> None:
        """Drop reports of tasks that run, by the word of their own agents: another agent may report for a task."""
        for task, status in statuses.items():
            if status is not None and status.state is TaskState.RUNNING:
                failure, key = incident.failures[task], (task, incident.reports[task].key)
                incident.drop(task)
                is_false = (status.generation, status.attempt) <= key[1]
                if is_false and key not in self._unfounded:
                    self._unfounded.add(key)
                    _logger.warning(
                        "dropped a report that %s %s: its own agent at %s says that it runs (has it two agents?)",
                        task, failure.how, self._spec.agents[task],
                    )  # fmt: skip

    async def _statuses(self, tasks: Sequence[Task]) -> list[TaskStatus | None]:
        return await ask_each(lambda task: self._members[task].status(), tasks)

    async def _why_left(self, incident: Incident, budget: RestartBudget) -> Verdict | None:
        """Return the final verdict where the tasks are not restarted, None where they are."""
        task, how = incident.cause()
        policy = self._policy.of(task.role)
        if why := why_left(policy, None if incident.is_hang else incident.first()):
            _logger.warning("not restarted after %s %s: %s", task, how, why)
            return Verdict("" if policy is RestartPolicy.NEVER else f"not restarted: {why}", is_final=True)
        if (finished := await self._finished(incident)) is not None:
            _logger.warning("not restarted after %s %s: %s has finished", task, how, finished)
            return Verdict(f"not restarted: {finished} has finished, and would begin anew", is_final=True)
        if budget.gave_up:
            return Verdict(budget.gave_up, is_final=True, gave_up=True)
        needs_progress = not keeps_training(self._spec, self._strategy(), incident.scope)
        if why := budget.why_spent(self._policy, needs_progress=needs_progress):
            return await self._give_up(incident, budget, why)
        return None

    async def _finished(self, incident: Incident) -> Task | None:
        """Return a task that has ended well and would begin anew with the others, or no longer needs them."""
        lead = self._spec.lead
        serves = set(incident.scope) & set(plan_finish(self._spec, self._strategy()))
        tasks = tuple(dict.fromkeys((*incident.scope, *([lead] if serves else []))))
        statuses = await self._statuses(tasks)
        finished = (task for task, status in zip(tasks, statuses, strict=True) if status and has_finished(status))
        return next((task for task in finished if self._policy.of(task.role) is not RestartPolicy.ALWAYS), None)

    async def _give_up(self, incident: Incident, budget: RestartBudget, why: str) -> Verdict:
        task, how = incident.cause()
        words = f"given up after {task} {how}: {why}"
        _logger.error("%s; restart it by hand", words)
        given_up = budget.given_up(words, incident.generation)
        await self._journal.count(lambda counts: counts.with_budget(given_up))
        return Verdict(words, is_final=True, gave_up=True)

    async def _wait(self, incident: Incident, pause: float, words: str) -> None:
        """Wait until the restart is due; agents report `words`, its reason to wait for anything beside the pause."""
        if words:
            incident.words, incident.due = words, asyncio.get_running_loop().time() + pause
        await asyncio.sleep(pause)
        incident.due = None

    def _tell(self, incident: Incident, words: str) -> None:
        """Have agents report why the restart waits; log a new reason."""
        if words != incident.words:
            _logger.warning("%s", words)
        incident.words = words

    async def _begin(self, incident: Incident, budget: RestartBudget, cordoned: dict[str, str]) -> Operation:
        """Begin the restart; add to `cordoned` what it learns of hosts that are back."""
        if (moved := await self._moved(incident, cordoned, budget.name)) is not None:
            return moved
        cordoned |= await self._replacement.count_lost(incident)
        return await self._moved(incident, cordoned, budget.name) or await self._command(incident, budget)

    async def _command(self, incident: Incident, budget: RestartBudget) -> Operation:
        share = self._replacement.share(incident)
        reason = Reason(f"{self._reason(incident)}, {share or budget.which(self._policy)}")
        counted = None if share else restart_of(budget)
        operation = await self._gang.command(
            Verb.RESTART, incident.reports, reason, None, incident.generation, counted=counted
        )
        self._launched(incident, operation)
        return operation

    async def _moved(self, incident: Incident, cordoned: Mapping[str, str], name: str) -> Operation | None:
        """Begin a restart without a host that is dead or failed repeatedly; None where no task moves.

        It counts for that host, and not for those that go on without it: their budget, of this name, begins anew with
        a cordon.
        """
        counted = _anew(name) if cordoned else None
        operation = await self._replacement.begin(incident, Reason(self._reason(incident)), cordoned, counted)
        if operation is not None:
            self._launched(incident, operation)
        return operation

    def _reason(self, incident: Incident) -> str:
        task, how = incident.cause()
        return f"restarted by itself after {task} {how}"

    def _launched(self, incident: Incident, operation: Operation) -> None:
        incident.launched, incident.is_under_way = operation.intent.generation, True
        incident.words, incident.trouble, incident.obstacle, incident.tries = "", "", "", 0
        incident.troubled, incident.waited = None, 0.0

    async def _carried_out(self, incident: Incident, operation: Operation) -> bool:
        """Wait until the restart is carried out; return whether its tasks were started.

        If a host dies meanwhile, another restart without this host takes its place.
        """
        while not operation.carried_out.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await operation.carried_out.wait()
            if operation.complaint:
                self._note_trouble(incident, operation.complaint)
                with contextlib.suppress(GangError):
                    operation = await self._moved(incident, {}, "") or operation
        incident.is_under_way = False
        return operation.is_settled


def restart_of(budget: RestartBudget, slow: str = "") -> Counting:
    """Return how a restart by this budget is counted, `slow` being the task for whose slowness it is."""
    now = steady_time()

    def counted(counts: RecoveryCounts, generation: int) -> RecoveryCounts:
        counts = counts.with_slow(slow) if slow else counts
        return counts.with_budget(budget.after_restart(now, generation))

    return counted


def _anew(name: str) -> Counting:
    return lambda counts, generation: counts.with_budget(RestartBudget(name, generation=generation))


def _jittered(pause: float) -> float:
    return pause * (1.0 + random.uniform(0.0, _JITTER))
