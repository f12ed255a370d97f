"""Tasks of other hosts, commanded through their agents."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tfscale.agent import wire
from tfscale.agent.cluster.failure_report import FailureReport, Verdict
from tfscale.agent.cluster.gang import GangError, NotLed, Overtaken, Unanswered, Verb
from tfscale.agent.network.greetings import Answer
from tfscale.agent.on_demand.stack_requests import StackUnavailable
from tfscale.core.access.tls_fault import could_be_tls, tls_fault
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.security import ChannelOpener, RenewedChannel
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_identity import identity_of
from tfscale.core.records.task_status import Reason, TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc, telemetry_pb2

_logger = logging.getLogger(__name__)
_DESCRIBE = f"/{agent_pb2.DESCRIPTOR.services_by_name['Agent'].full_name}/Describe"
_QUICK = 1.0
"""Seconds for a question to an agent that may not be running."""

_CHECK = 6.0
"""Seconds for a check of the peer's disk, for which its agent waits 5 s, and for a connection to a newly started
agent."""

_ORDER = 8.0
"""Seconds in which the peer's agent carries an order out, for which it asks all other agents."""

SILENT = 20.0
"""Seconds after which an agent that does not answer counts as silent."""

_AGAIN = 0.25
"""Seconds until a request is repeated that a leaving agent has not answered, or has left to the next agent."""

_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""Codes of a call that no agent has answered: a server that stops cancels the calls of that moment."""

_ASK_AGAIN = 30.0
"""Seconds until an agent that TLS keeps away is asked again why."""


class Peer:
    """One task of another agent, as a gang.GangMember. The connection is made when it is first used.

    `patience` is the time in seconds after which an agent that does not answer is reported as unreachable. `counts`
    returns the recovery's counts, which go with commands and reports.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        run: str,
        task: Task,
        opener: ChannelOpener,
        patience: float = SILENT,
        *,
        counts: Callable[[], str] = lambda: "",
    ) -> None:
        self._spec, self.task, self._opener, self._counts = spec, task, opener, counts
        self._identity = identity_of(spec, run, task)
        self._to = wire.identity_message(self._identity)
        self.refusal = ""
        """Words with which the agent at the peer's address has refused the last question for its generation."""
        self.told = 0
        """Newest generation of which the agent has told."""
        self._patience = patience
        self._fault = ""
        """Words with which TLS has ended the last connection, empty where it has not."""
        self._asking: asyncio.Task[None] | None = None
        self._asked = -_ASK_AGAIN
        self._channel = RenewedChannel(opener, spec.agents[task])

    async def check(self, generation: int, is_start: bool) -> None:
        target = agent_pb2.ApplyRequest.TARGET_STARTABLE if is_start else agent_pb2.ApplyRequest.TARGET_STOPPABLE
        request = agent_pb2.ApplyRequest(target=target, generation=generation, to=self._to)
        try:
            await self._stub().Apply(request, timeout=_CHECK, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() in _UNANSWERED:
                raise Unanswered(self._no_answer()) from None
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:  # an older agent, which knows no such target
                raise self._refused(error) from error

    async def fence(
        self, generation: int, reason: Reason, unreachable: Callable[[str], None], verb: Verb
    ) -> TaskStatus:
        return await self._apply(agent_pb2.ApplyRequest.TARGET_STOPPED, generation, reason, unreachable, verb)

    async def run(self, generation: int, reason: Reason, unreachable: Callable[[str], None]) -> TaskStatus:
        return await self._apply(agent_pb2.ApplyRequest.TARGET_RUNNING, generation, reason, unreachable)

    async def generation(self, patience: float = _QUICK, wait: bool = False) -> int | None:
        """Return the newest generation that the peer's agent knows, None without an answer in `patience` seconds.

        With `wait`, an agent that is not running yet is waited for. Otherwise gRPC is not asked where nobody listens: a
        channel goes on trying, so that a thousand hosts without an agent cost a lead 17 % of a core for ever.
        """
        if not (wait or self._channel.is_open or await self._listens(patience)):
            self.refusal = self._fault = ""
            return None
        request = agent_pb2.DescribeRequest(to=self._to)
        try:
            answer = await self._describe()(request, timeout=patience, wait_for_ready=wait)
        except grpc.aio.AioRpcError as error:
            self._log_refusal(error)
            return None
        self.refusal = self._fault = ""
        self.told = answer.generation
        return answer.generation

    async def status(self) -> TaskStatus | None:
        frame = await self._newest(wire.watch_request(self._identity))
        return None if frame is None else wire.status_record(frame.status)

    async def pause(self) -> str:
        frame = await self._newest(wire.newest_request(self._identity))
        return "" if frame is None else wire.pause_in(frame)

    async def report_failure(self, report: FailureReport, patience: float) -> Verdict | None:
        """Return the verdict of the peer's agent about a failure, None without an answer in `patience` seconds.

        Raises GangError where the peer is not the acting lead, or refuses for another reason.
        """
        try:
            message = wire.failure_message(report, self._to)
            message.counts = self._counts()
            return wire.verdict_record(await self._stub().ReportFailure(message, timeout=patience))
        except grpc.aio.AioRpcError as error:
            if error.code() in (*_UNANSWERED, grpc.StatusCode.UNIMPLEMENTED):  # an agent that holds no task so far
                return None
            raise self._refused(error) from error

    async def carry(self, verb: Verb, order: agent_pb2.TasksRequest, giver: str) -> AsyncIterator[agent_pb2.Progress]:
        """Give the peer's agent the command that `giver` gave to this one; yield its progress. Raises GangError.

        It is NotLed where the agent does not lead, and Unanswered where it falls silent before it has told of a begin.
        """
        carried = agent_pb2.TasksRequest()
        carried.CopyFrom(order)
        carried.to.CopyFrom(self._to)
        carried.carried_for = giver
        call, is_begun = getattr(self._stub(), verb.capitalize())(carried), False
        try:
            async for progress in call:
                yield progress
                is_begun = True
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise NotLed(f"the agent of {self.task}: {error.details()}") from error
            if error.code() in _UNANSWERED and not is_begun:
                raise Unanswered(self._no_answer()) from error
            raise self._refused(error) from error
        finally:
            call.cancel()

    async def carry_order(self, name: str, argument: str, giver: str) -> str:
        """Give the peer's agent an order about a host, as `carry` does; return its result in words."""
        order = agent_pb2.OrderRequest(to=self._to, name=name, argument=argument, carried_for=giver)
        try:
            return (await self._stub().Order(order, timeout=_ORDER)).done
        except grpc.aio.AioRpcError as error:
            raise self._refused(error) from error

    async def stacks(self) -> str:
        """Return the Python stacks of the peer's threads. Raises StackUnavailable."""
        try:
            return (await self._stub().Stack(agent_pb2.StackRequest(to=self._to), timeout=_CHECK)).text
        except grpc.aio.AioRpcError as error:
            raise StackUnavailable(error.details() or self._no_answer()) from error

    async def greet(self, patience: float) -> Answer:
        """Return who answers within `patience` seconds, or half as many more if the agent does not."""
        try:
            request = health_pb2.HealthCheckRequest(service=wire.health_name(self._identity))
            await health_pb2_grpc.HealthStub(self._channel.opened()).Check(request, timeout=patience)
        except grpc.aio.AioRpcError as error:
            self._look_for_fault(error)
            return Answer.HOST if await self._host_answers(patience / 2) else Answer.NOBODY
        return Answer.AGENT

    async def _host_answers(self, patience: float) -> bool:
        """Decide whether the kernel of the agent's host answers: it does so also for a stopped or dead agent."""
        return await self._listens(patience, if_refused=True)

    async def _listens(self, patience: float, *, if_refused: bool = False) -> bool:
        """Decide whether somebody accepts connections at the agent's address; `if_refused` is what a refusal means."""
        address = self._spec.agents[self.task]
        try:
            async with asyncio.timeout(patience):
                connecting = asyncio.get_running_loop().create_connection(asyncio.Protocol, address.host, address.port)
                (await connecting)[0].abort()
        except ConnectionRefusedError:
            return if_refused
        except OSError:
            return False
        return True

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        await self._channel.close()

    async def _newest(self, request: agent_pb2.WatchRequest) -> telemetry_pb2.Frame | None:
        """Return the newest frame of the peer's task, None without an answer."""
        watch = self._stub().Watch(request, timeout=_QUICK)
        try:
            async for reply in watch:
                return reply.snapshot.recent[-1]
        except grpc.aio.AioRpcError:
            return None
        finally:
            watch.cancel()
        return None

    def _stub(self) -> agent_pb2_grpc.AgentAsyncStub:
        return agent_pb2_grpc.AgentStub(self._channel.opened())

    def _describe(self) -> grpc.aio.UnaryUnaryMultiCallable[agent_pb2.DescribeRequest, agent_pb2.Description]:
        """Return the one call that a lead makes to each agent as it starts: a stub of all calls takes twice as long."""
        return self._channel.opened().unary_unary(
            _DESCRIBE,
            request_serializer=agent_pb2.DescribeRequest.SerializeToString,
            response_deserializer=agent_pb2.Description.FromString,
        )

    async def _apply(
        self,
        target: agent_pb2.ApplyRequest.Target.ValueType,
        generation: int,
        reason: Reason,
        unreachable: Callable[[str], None],
        verb: Verb | None = None,
    ) -> TaskStatus:
        """Repeat the request until the agent has answered: meanwhile it may end and be started again."""
        request = agent_pb2.ApplyRequest(target=target, generation=generation, reason=reason.text, to=self._to)
        request.restarted_for = reason.restarted_for
        request.verb, request.counts = wire.verb_message(verb), self._counts()
        listening = asyncio.create_task(self._listen(unreachable))
        try:
            while True:
                call = self._stub().Apply(request, wait_for_ready=True)
                try:
                    return wire.status_record(await call)
                except grpc.aio.AioRpcError as error:
                    if error.code() not in _UNANSWERED:
                        raise self._refused(error) from error
                    await asyncio.sleep(_AGAIN)
                finally:
                    call.cancel()
        finally:
            listening.cancel()

    async def _listen(self, unreachable: Callable[[str], None]) -> None:
        """Ask the agent again and again whether it is there, and report it once it has been silent for `patience`.

        The request itself does not show whether the agent lives: it is answered when the task is there, perhaps after a
        grace period, and gRPC holds back the first metadata of such a call until its answer.
        """
        loop = asyncio.get_running_loop()
        heard, is_reported, pause = loop.time(), False, self._patience / 20
        while True:
            # An agent that is stopped answers nothing, and its kernel keeps the connection.
            left = self._patience if is_reported else heard + self._patience - loop.time()
            if await self.generation(min(self._patience / 4, max(left, pause)), wait=True) is not None:
                if is_reported:
                    _logger.info("its agent answers again", extra={"task": str(self.task)})
                heard, is_reported = loop.time(), False
            elif loop.time() - heard >= self._patience and not is_reported:
                is_reported = True
                unreachable(self._no_answer())
            await asyncio.sleep(pause)

    def _log_refusal(self, error: grpc.aio.AioRpcError) -> None:
        """Log once that a stranger's agent answers at the peer's address, or an agent with another cluster file."""
        refusal = (error.details() or "") if error.code() is grpc.StatusCode.NOT_FOUND else ""
        self._look_for_fault(error)
        if refusal and refusal != self.refusal:
            _logger.warning("the agent at %s refuses: %s", self._spec.agents[self.task], refusal)
        self.refusal = refusal

    def _look_for_fault(self, error: grpc.aio.AioRpcError) -> None:
        """Ask in a thread for a fault of TLS on the connection, where it may use TLS."""
        now = time.monotonic()
        if error.code() is grpc.StatusCode.UNAVAILABLE and could_be_tls(error.details() or ""):
            if now - self._asked >= _ASK_AGAIN:
                self._asked = now
                self._asking = asyncio.create_task(self._ask_for_fault())
        elif error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            self._fault = ""

    async def _ask_for_fault(self) -> None:
        address = self._spec.agents[self.task]
        fault = await asyncio.to_thread(tls_fault, address, self._opener.tls)
        if fault and fault != self._fault:
            _logger.warning("the agent of %s at %s: %s", self.task, address, fault)
        self._fault = fault

    def _no_answer(self) -> str:
        agent = f"the agent of {self.task} at {self._spec.agents[self.task]}"
        return f"{agent}: {self._fault}" if self._fault else f"{agent} does not answer: start it"

    def _refused(self, error: grpc.aio.AioRpcError) -> GangError:
        kind = Overtaken if error.code() is grpc.StatusCode.FAILED_PRECONDITION else GangError
        return kind(f"the agent of {self.task}: {error.details()}")
