"""Commands to several tasks at once, carried out by the agent of the lead task, or in its place by the acting lead.

A command gets the next generation and is written to the journal before any task is touched. In the first phase every
task of the command is fenced: a process from an older generation ends. When all have ended, the second phase starts
them in the new generation (`stop` has no second phase). Both requests are idempotent and refused with an older
generation, so the next agent of the lead can repeat a command, and a newer command can supersede it, at any moment.
Nothing here polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from tfscale.agent.cluster.journal import Intent, Journal, JournalError
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.process.steady_clock import steady_time
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.many_questions import first_to_answer
from tfscale.core.cluster.recovery_policy import RecoveryPolicy
from tfscale.core.cluster.restart import plan_finish, plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Reason, Stage, TaskState, TaskStatus
from tfscale.core.text import exit_phrase

_logger = logging.getLogger(__name__)
_PROOF = 3.0
"""Seconds for which tasks must live after their start before the command counts as done: a wrong import ends one at
once."""
_ALIVE = (TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING)
_MOST_NUMBERS = 3
"""Numbers that a stop takes in a row where another command was given the same."""
_SUPERSEDED = "another command came"
Counting = Callable[[RecoveryCounts, int], RecoveryCounts]
"""Change of the counts that goes with a command, in its generation."""


def _nothing_counted(counts: RecoveryCounts, _generation: int) -> RecoveryCounts:
    """Return the counts as they are: nobody counts the restarts for which a person asks."""
    return counts


class GangError(TfscaleError):
    """A command that cannot be carried out; the message says what to do."""


class Busy(GangError):
    """A command that was refused because another command is under way."""


class Undecided(GangError):
    """A command or a question on which no majority has agreed."""


class Unanswered(GangError):
    """A request that a task's agent does not answer."""


class Unknown(GangError):
    """A command of which nobody has told whether it has begun."""


class Overtaken(GangError):
    """A request for a generation that the cluster has left."""


class NotLed(Overtaken):
    """A command that nobody has begun: whoever leads is away, or another agent does."""


class TasksEnded(Overtaken):
    """A restart of failed tasks that a later command has ended for good."""


class Superseded(GangError):
    """A command under way in whose place a newer one was given elsewhere."""


class Leaving(GangError):
    """A start that a leaving agent leaves to the next agent."""


class Verb(StrEnum):
    """Kind of a command."""

    RESTART = "restart"
    START = "start"
    STOP = "stop"
    FINISH = "finish"
    """Stop of tasks that only served the lead's task, which has ended well."""

    @property
    def is_end(self) -> bool:
        """True for a command after which no start follows."""
        return self in (Verb.STOP, Verb.FINISH)


class GangMember(Protocol):
    """A task of the cluster as the lead's agent reaches it: its own task, or a peer through the peer's agent.

    `fence` and `run` raise GangError if the task cannot be brought into that state. They call `unreachable` once if
    the task's agent does not answer for a while, and go on waiting.
    """

    async def check(self, generation: int, is_start: bool, /) -> None:
        """Raise a TfscaleError if `fence`, or with `is_start` `run`, could not be carried out now; change nothing.

        It is Unanswered where the task's agent does not answer.
        """

    async def fence(
        self, generation: int, reason: Reason, unreachable: Callable[[str], None], verb: Verb, /
    ) -> TaskStatus:
        """End the task if it runs in an older generation, and wait until it has ended; `verb` says what follows."""

    async def run(self, generation: int, reason: Reason, unreachable: Callable[[str], None], /) -> TaskStatus:
        """Start the task unless it was started in this generation, and wait until it runs."""

    async def generation(self) -> int | None:
        """Return the newest generation that its agent knows, None if the agent does not answer at once."""

    async def status(self) -> TaskStatus | None:
        """Return the task's status, None if its agent does not answer at once."""


class Placer(Protocol):
    """Agreement of the agents on each command, where tasks may move, and the way of a gang to another placement."""

    async def newest(self) -> int:
        """Return the generation of the newest command that the agents agree on, 0 before the first.

        Raises Undecided where no majority answers, and Overtaken where tasks sit elsewhere than this agent knew.
        """

    async def agree(self, intent: Intent, counts: RecoveryCounts, failed_in: int | None, /) -> None:
        """Have a majority agree that this is the newest command, and on the counts with it.

        The tasks of a command for a failure failed in generation `failed_in`.

        Raises Overtaken where another command came first, and Undecided where no majority answers.
        """

    async def confirm(self, generation: int, /) -> None:
        """Wait until a majority knows no newer command than that of this generation. Raises Superseded."""

    async def hand_over(self, placement: str, reason: Reason, /) -> None:
        """Send the placement to all agents. Raises a TfscaleError."""

    def follow(self) -> None:
        """Go on in the placement that was last sent: this gang gives no further commands."""


async def lowest_living(members: Mapping[Task, GangMember], tasks: Sequence[Task]) -> Task | None:
    """Return the first of these tasks whose agent answers."""
    return await first_to_answer(lambda task: members[task].generation(), tasks)


class Gang:
    """All tasks of the cluster, as one agent commands them: issues generations and carries out commands."""

    def __init__(
        self,
        spec: ClusterSpec,
        journal: Journal,
        members: Mapping[Task, GangMember],
        strategy: Callable[[], str | None],
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._spec = spec
        self._journal = journal
        self._members = members
        self._strategy = strategy
        self._on_failure = on_failure
        self.placer: Placer | None = None
        """None where tasks stay where the cluster file has them: no command needs a majority there."""
        self.lower: Sequence[Task] = ()
        """Tasks whose agents lead in the place of this one where one of them answers."""
        self._operation: Operation | None = None
        self._commanded: dict[Task, int] = {}
        """Generation of the newest command to each task."""
        self._deciding = asyncio.Lock()

    def commanded(self, task: Task) -> int:
        """Return the generation of the newest command that this agent has given to the task, 0 without one."""
        return self._commanded.get(task, 0)

    @property
    def counts(self) -> RecoveryCounts:
        """Counts of the cluster's recovery, as far as this agent knows."""
        return self._journal.entry.counts

    @property
    def start_under_way(self) -> Operation | None:
        """Command under way after which its tasks run; None without one."""
        operation = self._operation
        return None if operation is None or operation.carried_out.is_set() or _verb(operation).is_end else operation

    async def leads_now(self) -> bool:
        """Return whether no agent of a lower task answers; the next lower one is asked first, and mostly answers."""
        for asked in (self.lower[-1:], self.lower[:-1]):
            if await lowest_living(self._members, asked) is not None:
                return False
        return True

    async def begin(self) -> tuple[Task, ...]:
        """Start the lead's own task and its peers that answer, in a generation newer than any; return the others.

        A peer whose agent starts later asks for the generation and starts its task by itself.
        """
        generations = await self._generations(self._members)
        together = plan_restart(self._spec, self._strategy(), [self._spec.lead])
        tasks = tuple(task for task in together if generations[task] is not None)
        reason = Reason("started with the agent of the lead task")
        await self._launch(_intent(Verb.START, tasks, await self._after(generations), reason))
        return tuple(task for task in together if task not in tasks)

    def resume(self) -> None:
        """Go on with the command that was under way when the last agent was killed, if there was one."""
        intent = self._journal.entry.intent
        if intent is not None:
            _logger.info("going on with the %s to generation %d", intent.verb, intent.generation)
            self._drive(Operation(intent, tuple(map(Task.parse, intent.tasks)), is_resumed=True))

    async def command(
        self,
        verb: Verb,
        tasks: Iterable[Task],
        reason: Reason,
        expected: int | None,
        failed_in: int | None = None,
        *,
        counted: Counting | None = None,
    ) -> Operation:
        """Begin a command for `tasks` and the tasks that must restart or stop together with them.

        A restart for a failure tells the generation in which the tasks failed, `failed_in`, and how it is `counted`
        once it has begun. Raises Overtaken if `expected` is not the generation any more, TasksEnded if a command has
        ended the tasks since they failed, Busy while another command is under way, and RestartError for tasks that are
        not in the cluster.
        """
        asked = tuple(tasks)
        planned = plan_restart(self._spec, self._strategy(), asked)
        async with self._deciding:
            await self._written_down()
            self._refuse(expected)
            if verb is Verb.START and await self._all_run(asked):
                return self._nothing_to_do(asked)
            generation = await self._next_generation(expected)
            silent = await self._check(verb, planned, generation, is_start=verb is not Verb.STOP)
            await self._leave_to_lower()
            reason = reason if reason.text else Reason(f"{verb} by request")
            return await self._launch(_intent(verb, planned, generation, reason), failed_in, silent, counted=counted)

    async def move(
        self,
        tasks: tuple[Task, ...],
        reason: Reason,
        placement_in: Callable[[int], str],
        expected: int | None = None,
        failed_in: int | None = None,
        *,
        counted: Counting | None = None,
    ) -> Operation:
        """Begin a restart of these tasks in another placement: they are stopped here, and start with their new agents.

        `placement_in` returns the placement of the command's generation, as JSON. Raises Overtaken, TasksEnded and Busy
        as `command` does, and GangError where a task could not be stopped.
        """
        async with self._deciding:
            await self._written_down()
            self._refuse(expected)
            generation = await self._next_generation(expected)
            await self._check(Verb.RESTART, tasks, generation, is_start=False)
            await self._leave_to_lower()
            placement = placement_in(generation)
            intent = _intent(Verb.RESTART, tasks, generation, reason, placement)
            return await self._launch(intent, failed_in, counted=counted)

    async def check_restart(self, tasks: tuple[Task, ...], generation: int) -> None:
        """Raise GangError with all that hinders a restart of these tasks; change nothing."""
        await self._check(Verb.RESTART, tasks, generation, is_start=True)

    async def learn(self, counts: RecoveryCounts) -> None:
        """Go on with counts of another agent where they are newer than the own. Raises JournalError."""
        await self._journal.count(lambda own: own.with_other(counts))

    async def catch_up(self) -> None:
        """Learn what other agents have counted, where a majority answers; without one nothing can begin."""
        if self.placer is not None:
            with contextlib.suppress(GangError):
                await self.placer.newest()

    async def forgive(self, host: str) -> None:
        """Count the failures of a host anew. Raises Busy while a command is under way, and JournalError."""
        async with self._deciding:
            self._refuse(None)
            generation = self._journal.entry.generation
            await self._journal.count(lambda own: replace(own, hosts=own.hosts.forgiven(host, generation)))

    async def blame(self, hosts: Iterable[str], generation: int, policy: RecoveryPolicy) -> dict[str, str]:
        """Count a failure of each of these hosts in a generation; return those to be cordoned, with the reason.

        Raises JournalError.
        """
        blamed, now = dict.fromkeys(hosts), steady_time()

        def counted(counts: RecoveryCounts) -> RecoveryCounts:
            failures = counts.hosts
            for host in blamed:
                failures = failures.after(host, now, generation, policy)
            return replace(counts, hosts=failures)

        await self._journal.count(counted)
        failures = self.counts.hosts
        return {host: why for host in blamed if (why := failures.why_cordoned(host, policy))}

    async def finish(self) -> Operation | None:
        """Stop the tasks that only served the lead's task, which has ended well; None if there are none."""
        async with self._deciding:
            under_way = self._operation
            if under_way is not None and not under_way.overdue:
                await under_way.carried_out.wait()
            served = plan_finish(self._spec, self._strategy())
            tasks = tuple([task for task in served if await self._all_run((task,))])
            if not tasks:
                return None
            generation = await self._after(await self._generations(self._members))
            return await self._launch(
                _intent(Verb.FINISH, tasks, generation, Reason(f"{self._spec.lead} has finished"))
            )

    async def settle(self) -> None:
        """Wait until all callers know the outcome of the command under way."""
        if self._operation is not None:
            async for _ in self._operation.progress():
                pass

    async def close(self) -> None:
        """Stop driving a command under way: the next agent goes on with it."""
        await self._cancel("the agent ends")

    async def _leave_to_lower(self) -> None:
        """Raise NotLed where a lower agent is back: the check before may have waited just for it."""
        if (back := await lowest_living(self._members, self.lower)) is not None:
            raise NotLed(f"the agent of {back} is there, and leads: ask it")

    async def _written_down(self) -> None:
        """Wait for a command whose tasks run already, and whose end only has to be written down."""
        ending = self._operation
        if ending is not None and ending.is_settled:
            await ending.carried_out.wait()

    def _refuse(self, expected: int | None) -> None:
        if expected is not None and expected < self._journal.entry.generation:
            raise self._overtaken(expected, self._journal.entry.generation)
        busy = self._operation
        if busy is not None and not busy.overdue and not busy.carried_out.is_set():
            names = ", ".join(map(str, busy.tasks))
            raise Busy(
                f"a {busy.intent.verb} of {names} to generation {busy.intent.generation} is under way: wait for it"
            )

    def _overtaken(self, expected: int, now: int) -> Overtaken:
        return Overtaken(f"the cluster is in generation {now}, not {expected}: look at its tasks, then ask again")

    async def _next_generation(self, expected: int | None) -> int:
        """Return the generation of a new command. Raises Overtaken if `expected` is above all that an agent knows.

        It may be above the own journal's where another agent has led meanwhile.
        """
        following = await self._after(await self._generations(self._members))
        if expected is not None and expected >= following:
            raise self._overtaken(expected, following - 1)
        return following

    async def _generations(self, tasks: Iterable[Task]) -> dict[Task, int | None]:
        asked = tuple(tasks)
        numbers = await asyncio.gather(*(self._members[task].generation() for task in asked))
        return dict(zip(asked, numbers, strict=True))

    async def _after(self, generations: Mapping[Task, int | None]) -> int:
        """Return the next generation, above every task's own: a task that is ahead would refuse lower numbers.

        Raises GangError where the newest agreement is not known.
        """
        agreed = 0 if self.placer is None else await self.placer.newest()
        return max(agreed, self._journal.entry.generation, *(number or 0 for number in generations.values())) + 1

    async def _check(self, verb: Verb, tasks: tuple[Task, ...], generation: int, *, is_start: bool) -> dict[Task, str]:
        """Check all that the command needs before anything is stopped. Raises GangError with all that is missing.

        It is NotLed where only agents are missing that lead in the place of this one.

        A stop on which a majority agrees needs no agent: return the tasks whose agents do not answer, with the words
        for it.
        """
        checks = (self._members[task].check(generation, is_start) for task in tasks)
        outcomes = dict(zip(tasks, await asyncio.gather(*checks, return_exceptions=True), strict=True))
        if other := [each for each in outcomes.values() if each is not None and not isinstance(each, TfscaleError)]:
            raise other[0]
        waits_for_none = verb is Verb.STOP and self.placer is not None
        silent = {task: str(each) for task, each in outcomes.items() if waits_for_none and isinstance(each, Unanswered)}
        if missing := {task: each for task, each in outcomes.items() if each is not None and task not in silent}:
            is_led = all(task in self.lower and isinstance(each, Unanswered) for task, each in missing.items())
            kind = NotLed if is_led else GangError
            raise kind(f"nothing was stopped, and the {verb} not begun: {'; '.join(map(str, missing.values()))}")
        if verb is Verb.START:
            await self._refuse_to_stop(tasks)
        return silent

    async def _refuse_to_stop(self, tasks: tuple[Task, ...]) -> None:
        """Raise GangError if a start would have to stop a living task that trains with the others."""
        statuses = await asyncio.gather(*(self._members[task].status() for task in tasks))
        alive = [
            str(task) for task, status in zip(tasks, statuses, strict=True) if status is None or status.state in _ALIVE
        ]
        if alive:
            raise GangError(f"a start stops nothing, and {', '.join(alive)} would have to begin anew: restart instead")

    async def _all_run(self, tasks: tuple[Task, ...]) -> bool:
        statuses = await asyncio.gather(*(self._members[task].status() for task in tasks))
        return all(status is not None and status.state is TaskState.RUNNING for status in statuses)

    def _nothing_to_do(self, tasks: tuple[Task, ...]) -> Operation:
        intent = Intent(Verb.START, tuple(map(str, tasks)), self._journal.entry.generation, True, "")
        operation = Operation(intent, tasks)
        operation.report(Stage.DONE, tasks, "already running")
        operation.finish()
        return operation

    async def _cancel(self, why: str = _SUPERSEDED) -> None:
        driver = None if self._operation is None else self._operation.driver
        if driver is not None and not driver.done():
            driver.cancel(why)
            await asyncio.wait([driver])

    async def _launch(
        self,
        intent: Intent,
        failed_in: int | None = None,
        silent: Mapping[Task, str] = MappingProxyType({}),
        *,
        counted: Counting | None = None,
    ) -> Operation:
        """Begin a command once the agents agree on it, in the place of one under way."""
        generation, counting = intent.generation, counted or _nothing_counted
        if self.placer is not None:
            await self.placer.agree(intent, counting(self.counts, generation), failed_in)
        await self._cancel()
        await self._journal.count(lambda own: counting(own, generation), generation=generation, intent=intent)
        operation = Operation(intent, tuple(map(Task.parse, intent.tasks)), silent)
        operation.report(Stage.PLANNED, operation.tasks, intent.reason)
        self._drive(operation)
        return operation

    def _drive(self, operation: Operation) -> None:
        self._operation = operation
        self._commanded |= dict.fromkeys(operation.tasks, operation.intent.generation)
        operation.driver = asyncio.create_task(self._follow(operation))

    async def _follow(self, operation: Operation) -> None:
        try:
            await self._stop_then_start(operation)
            operation.is_settled = True
            await self._journal.update(intent=None)
            operation.carried_out.set()
            operation.report(Stage.DONE, operation.tasks, await self._proof(operation))
        except JournalError as error:
            operation.report(Stage.FAILED, operation.tasks, str(error))
            self._on_failure()
        except Superseded as error:
            operation.report(Stage.FAILED, operation.tasks, str(error))
            with contextlib.suppress(JournalError):  # the next agent learns it anew
                await self._journal.update(intent=None)
        except TfscaleError as error:
            if not isinstance(error, GangError):
                operation.report(Stage.FAILED, operation.tasks, str(error))
            with contextlib.suppress(JournalError):  # the next agent tries once more
                await self._journal.update(intent=None)
            self._on_failure()
        finally:
            operation.carried_out.set()
            operation.finish()
            if operation.is_settled and (placer := self._placer_of(operation)) is not None:
                placer.follow()

    async def _proof(self, operation: Operation) -> str:
        """Watch the started tasks for some seconds. Raises GangError where a task has failed by then.

        A newer command ends the watch: then return the words for it.
        """
        if self._placer_of(operation) is not None:
            return "placed; each task starts with its agent of now"
        if _verb(operation).is_end:
            return ""
        try:
            await asyncio.sleep(_PROOF)
        except asyncio.CancelledError as cancelled:
            if _SUPERSEDED not in cancelled.args:
                raise
            return f"not watched for {_PROOF:g} s, since {_SUPERSEDED}"
        statuses = await asyncio.gather(*(self._members[task].status() for task in operation.tasks))
        for task, status in zip(operation.tasks, statuses, strict=True):
            if status is not None and (why := _failure(status, operation.intent.generation)):
                operation.report(Stage.FAILED, [task], f"{task} {why}; see its log", is_logged=task == self._spec.lead)
                raise GangError(why)
        return ""

    async def _stop_then_start(self, operation: Operation) -> None:
        if operation.is_resumed:
            await self._confirm(operation)
        if not operation.intent.starting:
            await self._stop_all(operation)
        if _verb(operation).is_end:
            return
        await self._confirm(operation)
        if (placer := self._placer_of(operation)) is not None:
            await placer.hand_over(operation.intent.placement, operation.intent.why)
        else:
            operation.intent = replace(operation.intent, starting=True)
            await self._journal.update(intent=operation.intent)
            await self._all(operation, self._run)

    async def _confirm(self, operation: Operation) -> None:
        """Wait until a majority knows no newer command: who was cut off starts nothing in an old generation."""
        if self.placer is not None:
            await self.placer.confirm(operation.intent.generation)

    async def _stop_all(self, operation: Operation) -> None:
        """Stop all tasks; repeat a command after which none starts above another one that was given its number.

        Two agents may lead for a moment, and then number alike. Raises GangError.
        """
        tries = 0
        while True:
            try:
                return await self._all(operation, self._fence)
            except Overtaken as error:
                tries += 1
                following = await self._after(await self._generations(self._members))
                is_taken = (
                    self.placer is None and following == operation.intent.generation + 1 and _verb(operation).is_end
                )
                if not is_taken or tries == _MOST_NUMBERS:
                    operation.report(Stage.FAILED, operation.tasks, str(error))
                    raise
                operation.intent = replace(operation.intent, generation=following)
                await self._journal.update(generation=following, intent=operation.intent)
                self._commanded |= dict.fromkeys(operation.tasks, following)

    def _placer_of(self, operation: Operation) -> Placer | None:
        """Return the placer of a command that moves tasks, None for any other command."""
        return self.placer if operation.intent.placement else None

    async def _all(self, operation: Operation, act: Callable[[Operation, Task], Awaitable[None]]) -> None:
        """Act on all tasks in parallel, wait for all, then raise the first failure.

        Callers do not wait for tasks whose agents were silent before it began: these come last.
        """
        await _all_done(act(operation, task) for task in operation.tasks if task not in operation.silent)
        for task, why in operation.silent.items():
            operation.unreachable(task, f"whether {task} runs is not known: {why}")
        await _all_done(act(operation, task) for task in operation.silent)

    async def _fence(self, operation: Operation, task: Task) -> None:
        if task not in operation.silent:  # the last that its callers hear is that nobody knows of it
            operation.report(Stage.STOPPING, [task])
        fence, verb = self._members[task].fence, _verb(operation)
        status = await self._request(operation, task, lambda number, reason, lost: fence(number, reason, lost, verb))
        if verb.is_end and status.state in _ALIVE:
            raise Overtaken(f"{task} was started in generation {status.generation} by another command")
        operation.report(Stage.STOPPED, [task])

    async def _run(self, operation: Operation, task: Task) -> None:
        operation.report(Stage.STARTING, [task])
        status = await self._request(operation, task, self._members[task].run)
        if status.state is not TaskState.RUNNING:
            why = f"{task} is {status.state}: {status.reason}; see its log"
            operation.report(Stage.FAILED, [task], why, is_logged=task == self._spec.lead)
            raise GangError(why)
        operation.report(Stage.RUNNING, [task])

    async def _request(
        self,
        operation: Operation,
        task: Task,
        request: Callable[[int, Reason, Callable[[str], None]], Awaitable[TaskStatus]],
    ) -> TaskStatus:
        intent = operation.intent
        try:
            status = await request(intent.generation, intent.why, lambda why: operation.unreachable(task, why))
        except TfscaleError as error:
            if isinstance(error, Overtaken) and not intent.starting:
                raise  # its number may be taken: see `_stop_all`
            operation.report(Stage.FAILED, [task], str(error))
            raise GangError(str(error)) from error
        operation.answered(task)
        return status


def _intent(verb: Verb, tasks: tuple[Task, ...], generation: int, reason: Reason, placement: str = "") -> Intent:
    names = tuple(map(str, tasks))
    return Intent(verb, names, generation, False, reason.text, placement, restarted_for=reason.restarted_for)


async def _all_done(acts: Iterable[Awaitable[None]]) -> None:
    """Wait for all, then raise the first failure."""
    for outcome in await asyncio.gather(*acts, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def verb_of(name: str) -> Verb:
    """Return the kind of a command; an unknown kind, written by a later version, counts as a restart."""
    return next((verb for verb in Verb if verb == name), Verb.RESTART)


def _verb(operation: Operation) -> Verb:
    return verb_of(operation.intent.verb)


def _failure(status: TaskStatus, generation: int) -> str:
    """Return how a task that was started in this generation has failed, empty if it has not."""
    end = status.exit
    if status.generation != generation or not status.is_over:
        return ""
    if end is None:
        return f"is {status.state}: {status.reason}"
    lived = end.at - (end.at if status.started is None else status.started)
    return "" if end.well else f"{exit_phrase(end)}, {lived:.1f} s after its start"
