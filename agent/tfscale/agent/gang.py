"""Commands to several tasks at once, driven by the agent of the lead task.

A command gets the next generation and is written down before anything is touched. First every task it names is told
that generation: whatever runs from an older one ends (phase one). When all have answered, the tasks are started in it
(phase two; `stop` has none). Both requests are idempotent and refused with an older generation, so that a command may
be repeated by the next agent of the lead, and can be superseded by a newer one, at any moment. Nothing here polls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from tfscale.agent.journal import Intent, Journal, JournalError
from tfscale.core.cluster import ClusterSpec
from tfscale.core.errors import TfscaleError
from tfscale.core.records import TaskState, TaskStatus
from tfscale.core.restart import plan_finish, plan_restart
from tfscale.core.task import Task

_logger = logging.getLogger(__name__)


class GangError(TfscaleError):
    """A command that cannot be followed; the message says what to do."""


class Busy(GangError):
    """Another command is under way."""


class Overtaken(GangError):
    """The cluster has left the generation that the caller, or a peer, speaks of."""


class Verb(StrEnum):
    RESTART = "restart"
    START = "start"
    STOP = "stop"


class Stage(StrEnum):
    """How far a command has come, for the tasks that its progress names."""

    PLANNED = "planned"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of a command."""

    stage: Stage
    tasks: tuple[Task, ...]
    generation: int
    message: str = ""
    at: float = 0.0


class Member(Protocol):
    """A task of the cluster, seen from the lead: its own, or a peer's by its agent.

    Each raises GangError where the task cannot be brought there; `unreachable` is called, once, when the task's agent
    has not answered for a while, and the request goes on.
    """

    async def fence(self, generation: int, reason: str, unreachable: Callable[[str], None], /) -> TaskStatus:
        """End what runs from an older generation; answers when it has ended."""

    async def run(self, generation: int, reason: str, unreachable: Callable[[str], None], /) -> TaskStatus:
        """Start the task unless it was started in this generation; answers when it runs."""

    async def generation(self) -> int | None:
        """The generation its agent knows, None while that cannot be reached. Does not wait."""

    async def status(self) -> TaskStatus | None:
        """Where the task stands, None while its agent cannot be reached. Does not wait."""


class Operation:
    """One command on its way. It goes on whether or not anybody listens."""

    def __init__(self, intent: Intent, tasks: tuple[Task, ...]) -> None:
        self.intent = intent
        self.tasks = tasks
        self.overdue = False
        """Some agent does not answer; a newer command may take this one's place."""
        self.driver: asyncio.Task[None] | None = None
        self._history: list[Progress] = []
        self._changed = asyncio.Event()
        self._told = False

    def say(self, stage: Stage, tasks: Iterable[Task], message: str = "") -> None:
        self._history.append(Progress(stage, tuple(tasks), self.intent.generation, message, time.time()))
        self._log(self._history[-1])
        self._wake()

    def unreachable(self, task: Task, why: str) -> None:
        """Report it and let the callers go; the command itself waits on."""
        self.overdue = True
        self.say(Stage.FAILED, [task], f"{why}; the {self.intent.verb} goes on by itself when it answers")
        self.finish()

    def finish(self) -> None:
        self._told = True
        self._wake()

    async def progress(self) -> AsyncIterator[Progress]:
        """Everything from the start, until there is nothing more to tell."""
        seen = 0
        while True:
            while seen < len(self._history):
                seen += 1
                yield self._history[seen - 1]
            if self._told:
                return
            await self._changed.wait()

    def _log(self, progress: Progress) -> None:
        level = logging.WARNING if progress.stage is Stage.FAILED else logging.INFO
        tasks = ", ".join(map(str, progress.tasks))
        text = f"{self.intent.verb} to generation {progress.generation}: {progress.stage} {tasks}"
        _logger.log(level, "%s", f"{text}: {progress.message}" if progress.message else text)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Gang:
    """The lead's view of the cluster: issues generations and drives commands."""

    def __init__(
        self,
        spec: ClusterSpec,
        journal: Journal,
        members: Mapping[Task, Member],
        strategy: Callable[[], str | None],
    ) -> None:
        self._spec = spec
        self._journal = journal
        self._members = members
        self._strategy = strategy
        self._operation: Operation | None = None
        self._deciding = asyncio.Lock()

    async def begin(self) -> None:
        """The lead's cold start: a generation newer than any, for the own task and for the peers that are there.

        Peers whose agents come later ask for the generation and start by themselves.
        """
        numbers = await asyncio.gather(*(each.generation() for each in self._members.values()))
        known = dict(zip(self._members, numbers, strict=True))
        together = plan_restart(self._spec, self._strategy(), [self._spec.lead])
        tasks = tuple(task for task in together if known[task] is not None)
        newest = max(number or 0 for number in numbers)
        self._launch(Verb.START, tasks, newest + 1, "started with the agent of the lead task")

    def resume(self) -> None:
        """Go on with the command that the last agent was killed in, if any."""
        intent = self._journal.entry.intent
        if intent is not None:
            _logger.info("going on with the %s to generation %d", intent.verb, intent.generation)
            self._drive(Operation(intent, tuple(map(Task.parse, intent.tasks))))

    async def command(self, verb: Verb, tasks: Iterable[Task], reason: str, expected: int | None) -> Operation:
        """Begin a command for `tasks` and what belongs with them.

        Raises Overtaken when `expected` is not the generation any more, Busy while another command is under way, and
        RestartError for tasks that are none of this cluster's.
        """
        asked = tuple(tasks)
        planned = plan_restart(self._spec, self._strategy(), asked)
        async with self._deciding:
            self._refuse(expected)
            if verb is Verb.START and await self._all_run(asked):
                return self._nothing_to_do(asked)
            await self._cancel()
            return self._launch(verb, planned, self._journal.entry.generation + 1, reason or f"{verb} by request")

    async def finish(self) -> Operation | None:
        """The lead's task has ended well: stop those that only wait for its work. None where nobody does."""
        async with self._deciding:
            under_way = self._operation
            if under_way is not None and under_way.driver is not None and not under_way.overdue:
                await asyncio.wait([under_way.driver])
            served = plan_finish(self._spec, self._strategy())
            tasks = tuple([task for task in served if await self._all_run((task,))])
            if not tasks:
                return None
            await self._cancel()
            return self._launch(Verb.STOP, tasks, self._journal.entry.generation + 1, f"{self._spec.lead} has finished")

    async def close(self) -> None:
        """Leave a command under way to the next agent."""
        await self._cancel()

    def _refuse(self, expected: int | None) -> None:
        now = self._journal.entry.generation
        if expected is not None and expected != now:
            raise Overtaken(f"the cluster is in generation {now}, not {expected}: look again, then ask again")
        busy = self._operation
        if busy is not None and not busy.overdue and busy.driver is not None and not busy.driver.done():
            names = ", ".join(map(str, busy.tasks))
            raise Busy(
                f"a {busy.intent.verb} of {names} to generation {busy.intent.generation} is under way: wait for it"
            )

    async def _all_run(self, tasks: tuple[Task, ...]) -> bool:
        found = await asyncio.gather(*(self._members[task].status() for task in tasks))
        return all(status is not None and status.state is TaskState.RUNNING for status in found)

    def _nothing_to_do(self, tasks: tuple[Task, ...]) -> Operation:
        intent = Intent(Verb.START, tuple(map(str, tasks)), self._journal.entry.generation, True, "")
        operation = Operation(intent, tasks)
        operation.say(Stage.DONE, tasks, "already running")
        operation.finish()
        return operation

    async def _cancel(self) -> None:
        driver = None if self._operation is None else self._operation.driver
        if driver is not None and not driver.done():
            driver.cancel()
            await asyncio.wait([driver])

    def _launch(self, verb: Verb, tasks: tuple[Task, ...], generation: int, reason: str) -> Operation:
        intent = Intent(verb, tuple(map(str, tasks)), generation, False, reason)
        self._journal.update(generation=generation, intent=intent)
        operation = Operation(intent, tasks)
        operation.say(Stage.PLANNED, tasks, reason)
        self._drive(operation)
        return operation

    def _drive(self, operation: Operation) -> None:
        self._operation = operation
        operation.driver = asyncio.create_task(self._follow(operation))

    async def _follow(self, operation: Operation) -> None:
        try:
            await self._phases(operation)
            self._journal.update(intent=None)
            operation.say(Stage.DONE, operation.tasks)
        except JournalError as error:
            operation.say(Stage.FAILED, operation.tasks, str(error))
        except GangError:
            self._journal.update(intent=None)
        finally:
            operation.finish()

    async def _phases(self, operation: Operation) -> None:
        if not operation.intent.starting:
            await self._each(operation, self._fence)
        if operation.intent.verb != Verb.STOP:
            operation.intent = replace(operation.intent, starting=True)
            self._journal.update(intent=operation.intent)
            await self._each(operation, self._run)

    async def _each(self, operation: Operation, act: Callable[[Operation, Task], Awaitable[None]]) -> None:
        """All tasks in parallel, each to its end; then raises what the first failure was."""
        outcomes = await asyncio.gather(*(act(operation, task) for task in operation.tasks), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _fence(self, operation: Operation, task: Task) -> None:
        operation.say(Stage.STOPPING, [task])
        await self._request(operation, task, self._members[task].fence)
        operation.say(Stage.STOPPED, [task])

    async def _run(self, operation: Operation, task: Task) -> None:
        operation.say(Stage.STARTING, [task])
        status = await self._request(operation, task, self._members[task].run)
        if status.state is not TaskState.RUNNING:
            why = f"{task} is {status.state}: {status.reason}; see its log"
            operation.say(Stage.FAILED, [task], why)
            raise GangError(why)
        operation.say(Stage.RUNNING, [task])

    async def _request(
        self,
        operation: Operation,
        task: Task,
        request: Callable[[int, str, Callable[[str], None]], Awaitable[TaskStatus]],
    ) -> TaskStatus:
        intent = operation.intent
        try:
            return await request(intent.generation, intent.reason, lambda why: operation.unreachable(task, why))
        except TfscaleError as error:
            operation.say(Stage.FAILED, [task], str(error))
            raise GangError(str(error)) from error
