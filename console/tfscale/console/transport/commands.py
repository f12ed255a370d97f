"""Commands of an operator to the agents: restart, stop or start tasks, profile one, follow a log, see a stack."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import grpc
import grpc.aio
from tfscale.console.engine.events import CommandProgressed, Profile
from tfscale.console.transport.channels import Channels, CommandError
from tfscale.console.wire import calls
from tfscale.core.access.orders import ORDERS, Order
from tfscale.core.cluster.many_questions import first_to_answer
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage
from tfscale.core.text import printable
from tfscale.core.validation import check_time

_logger = logging.getLogger(__name__)
_STACK_PATIENCE = 10.0
"""Seconds within which an agent must return the stacks."""
_ORDER_PATIENCE = 10.0
"""Seconds in which an agent carries out an order; the lead's agent may have to reach all others."""
_LEAD_PATIENCE = 3.0
"""Seconds for the lead's agent to answer before another one is asked to carry an order."""
PROFILE_SECONDS = 5.0
"""Length of a profile unless another is requested."""

FollowLog = Callable[[Task, int], AsyncIterator[tuple[str, ...]]]
"""`Commands.follow_log`."""


class Stack(NamedTuple):
    """The stacks of a task's threads at one moment, the main thread's first."""

    at: float
    pid: int
    text: str


class Commands(Protocol):
    """Commands that the screens give. All raise CommandError."""

    def why_no_order(self) -> str:
        """Return why orders of this console are refused, whatever they are about; empty if they may be given."""

    def order(self, verb: str, tasks: Sequence[Task], generation: int = 0) -> AsyncIterator[CommandProgressed]:
        """Restart, stop or start tasks, and yield the progress.

        `generation` is the generation that the operator saw, 0 for any: a newer one refuses the order.
        """

    def restart_without(self, host: str) -> AsyncIterator[CommandProgressed]:
        """Restart the gang with the tasks of a host, of an agent's address or of a task's host on others.

        Yield the progress.
        """

    async def carry_out(self, order: Order, task: Task | None, argument: str) -> str:
        """Have an order without a call of its own carried out, and return its result in words.

        `task` is None where the order is about a host.
        """

    def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        """Yield a task's log in bunches of lines, from `tail` lines before its end."""

    async def log_end(self, task: Task, tail: int, *, of_orders: bool = False) -> list[str]:
        """Return the last lines of a task's log, or of that of the orders which its agent was given, as JSON lines."""

    async def stack(self, task: Task) -> Stack:
        """Return the Python stacks of a task's threads."""

    def profile(self, task: Task, seconds: float, *, fetch: bool = False) -> AsyncIterator[Profile]:
        """Take TensorFlow's profile of a task's process, and yield the progress; the last stage has the file's name.

        With `fetch` the file follows piece by piece.
        """


class NoCommands:
    """Commands without any task: each raises CommandError with the `reason`."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def why_no_order(self) -> str:
        return ""

    async def order(self, verb: str, _tasks: Sequence[Task], _generation: int = 0) -> AsyncIterator[CommandProgressed]:
        raise CommandError(f"cannot {verb}: {self._reason}")
        yield

    async def restart_without(self, _host: str) -> AsyncIterator[CommandProgressed]:
        raise CommandError(f"cannot restart: {self._reason}")
        yield

    async def carry_out(self, order: Order, _task: Task | None, argument: str) -> str:
        raise CommandError(f"cannot {order.name} {argument}: {self._reason}")

    async def follow_log(self, _task: Task, _tail: int) -> AsyncIterator[tuple[str, ...]]:
        raise CommandError(f"no log: {self._reason}")
        yield

    async def log_end(self, _task: Task, _tail: int, *, of_orders: bool = False) -> list[str]:
        raise CommandError(f"no {'orders' if of_orders else 'log'}: {self._reason}")

    async def stack(self, _task: Task) -> Stack:
        raise CommandError(f"no stack: {self._reason}")

    async def profile(self, _task: Task, _seconds: float, *, fetch: bool = False) -> AsyncIterator[Profile]:  # noqa: ARG002
        raise CommandError(f"no profile: {self._reason}")
        yield


class AgentCommands:
    """Commands to agents; those to several tasks go to the lead, or, where it does not answer, to another agent.

    That one carries them to whoever leads in its place.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def why_no_order(self) -> str:
        return self._channels.why_no_order()

    async def order(self, verb: str, tasks: Sequence[Task], generation: int = 0) -> AsyncIterator[CommandProgressed]:
        lead = await self._lead()
        method = getattr(self._channels.stub(lead), ORDERS[verb].call)
        reason = f"{verb} asked for at the console"
        call = method(calls.tasks_request(self._channels.identity(lead), tasks, reason, generation))
        async for progress in self._followed(call, verb, lead):
            yield progress

    async def restart_without(self, host: str) -> AsyncIterator[CommandProgressed]:
        lead = await self._lead()
        reason = "restart asked for at the console"
        call = self._channels.stub(lead).Restart(calls.without_request(self._channels.identity(lead), [host], reason))
        async for progress in self._followed(call, "restart", lead):
            yield progress

    async def restart_slow(
        self, task: Task, policy: str, reason: str, generation: int, *, was_worth_it: bool
    ) -> AsyncIterator[CommandProgressed]:
        """Restart a slow task by the lead's policy `on_straggler`, if `generation` is the newest; yield the progress.

        `was_worth_it` is true where its last such restart has gained enough. Raises CommandError.
        """
        lead = self._channels.spec.lead
        to = self._channels.identity(lead)
        request = calls.policy_request(to, task, policy, reason, generation, was_worth_it=was_worth_it)
        async for progress in self._followed(self._channels.stub(lead).Restart(request), "restart", lead):
            yield progress

    async def carry_out(self, order: Order, task: Task | None, argument: str) -> str:
        asked = task or await self._lead()
        request = calls.order_request(self._channels.identity(asked), order.name, argument)
        async with self._explained(f"cannot {order.name} {argument}", asked):
            reply = await self._channels.stub(asked).Order(request, timeout=_ORDER_PATIENCE)
        return printable(reply.done)

    async def _lead(self) -> Task:
        """Return the lead, or the first other task whose agent answers where the lead's does not."""
        lead, others = self._channels.spec.lead, [*self._channels.placement.seats]
        others.remove(lead)
        if not others or await self._answers(lead):
            return lead
        if (other := await first_to_answer(self._answers, others)) is None:
            return lead
        _logger.warning("the agent of %s does not answer: that of %s is asked", lead, other)
        return other

    async def _answers(self, task: Task) -> bool | None:
        """Return True where a task's agent is there, also one that refuses, else None."""
        request = calls.describe_request(self._channels.identity(task))
        try:
            await self._channels.stub(task).Describe(request, timeout=_LEAD_PATIENCE)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                return None
        return True

    async def _followed(self, call: Any, verb: str, lead: Task) -> AsyncIterator[CommandProgressed]:
        has_begun = False
        async with self._explained(f"cannot {verb}", lead, call):
            try:
                async for message in call:
                    check_time(message.at)
                    progress = calls.progress(message, verb, message.at)
                    yield progress
                    has_begun = has_begun or progress.stage is not Stage.WORKING
            except grpc.aio.AioRpcError as error:
                if not has_begun or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                why = await self._channels.explain(lead, error)
                agent = f"the agent of {lead} at {self._channels.address(lead)}"
                raise CommandError(f"the {verb} has begun, and goes on without this console: {agent}: {why}") from None

    async def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        call = self._channels.stub(task).FollowLog(calls.log_request(self._channels.identity(task), tail, follows=True))
        async with self._explained("no log", task, call):
            async for chunk in call:
                rotated = ("--- the log was rotated ---",) if chunk.rotated else ()
                yield (*rotated, *chunk.lines)

    async def log_end(self, task: Task, tail: int, *, of_orders: bool = False) -> list[str]:
        call = self._channels.stub(task).FollowLog(
            calls.log_request(self._channels.identity(task), tail, of_orders=of_orders)
        )
        async with self._explained("no orders" if of_orders else "no log", task, call):
            return [line async for chunk in call for line in chunk.lines]

    async def stack(self, task: Task) -> Stack:
        request = calls.stack_request(self._channels.identity(task))
        async with self._explained("no stack", task):
            reply = await self._channels.stub(task).Stack(request, timeout=_STACK_PATIENCE)
            check_time(reply.at)
        return Stack(reply.at, reply.pid, calls.stack_text(reply))

    async def profile(self, task: Task, seconds: float, *, fetch: bool = False) -> AsyncIterator[Profile]:
        request = calls.profile_request(self._channels.identity(task), seconds, fetch=fetch)
        call = self._channels.stub(task).Profile(request)
        async with self._explained("no profile", task, call):
            async for reply in call:
                yield calls.profile(reply, seconds)

    @asynccontextmanager
    async def _explained(self, failure: str, task: Task, stream: Any = None) -> AsyncIterator[None]:
        """Raise an error of gRPC, or an answer without sense, as a CommandError; at the end, cancel the stream."""
        agent = f"the agent of {task} at {self._channels.address(task)}"
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise CommandError(f"{failure}: {agent}: {await self._channels.explain(task, error)}") from None
        except ValueError as error:
            raise CommandError(f"{failure}: {agent}: its answer makes no sense: {error}") from None
        finally:
            if stream is not None:
                stream.cancel()
