"""gRPC service of the agent. It only translates requests that the gatekeeper has let in; other modules decide."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import grpc.aio
from tfscale.agent import wire
from tfscale.agent.cluster.gang import Gang, Verb
from tfscale.agent.cluster.led_commands import LedCommands
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.cluster.present_lead import PresentLead
from tfscale.agent.cluster.recovery_counts import RecoveryCounts, received_counts
from tfscale.agent.file_thread import FileThread
from tfscale.agent.on_demand.profile_requests import ProfileProgress
from tfscale.agent.on_demand.stack_requests import StackDump
from tfscale.agent.on_demand.task_log import read_log
from tfscale.agent.placement.mover import Mover
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.voting import Voting
from tfscale.agent.preflight.examiner import Examiner
from tfscale.agent.process.steady_clock import steady_time
from tfscale.agent.recovery.acting_lead import ActingLead
from tfscale.agent.recovery.straggler_restarts import StragglerRestarts
from tfscale.agent.serving.callers import ORDERED_BY
from tfscale.agent.serving.consensus_service import serve_votes
from tfscale.agent.serving.frame_stream import frame_stream
from tfscale.agent.serving.placement_service import PlacementService, serve_placements
from tfscale.agent.serving.preflight_service import PreflightService
from tfscale.agent.serving.status_codes import Unsupported
from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.feed import Feed
from tfscale.core.access.orders import ORDERS, Subject
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.frame import Description
from tfscale.core.records.schema import OLDEST_SCHEMA
from tfscale.core.records.task_status import Reason
from tfscale.core.text import bounded, clock
from tfscale.v1 import agent_pb2, agent_pb2_grpc, preflight_pb2_grpc, telemetry_pb2

_logger = logging.getLogger(__name__)
SERVICE_NAME = agent_pb2.DESCRIPTOR.services_by_name["Agent"].full_name
_MOST_REPORT = 128 << 10
"""Bytes of a failure report, which contains the last lines of a log, and counts."""
_MOST_HOSTS = 1000
_MOST_GIVER = 60
_Context = grpc.aio.ServicerContext


class AgentService(agent_pb2_grpc.AgentServicer):
    """Service for consoles, scripts and the agents of other tasks.

    `seat` and `mover` are None where tasks stay where the cluster file has them.
    `acting` is None where the cluster file says nothing of recovery, `stragglers` also on all agents but the lead's.
    """

    def __init__(
        self,
        *,
        settings: AgentSettings,
        describe: Callable[[], Description],
        feed: Feed,
        local: LocalTask,
        gang: Gang,
        present_lead: PresentLead,
        acting: ActingLead | None,
        stragglers: StragglerRestarts | None,
        take_stack: Callable[[], Awaitable[StackDump]],
        profile: Callable[[float, bool], AsyncGenerator[ProfileProgress, None]],
        examiner: Examiner,
        orders: Mapping[str, Callable[[str], Awaitable[str]]],
        seat: Seat | None = None,
        mover: Mover | None = None,
        voting: Voting | None = None,
    ) -> None:
        self._settings = settings
        self._describe = describe
        self._feed = feed
        self._local = local
        self._gang = gang
        self._commands = LedCommands(settings, present_lead, self._begun)
        self._acting = acting
        self._stragglers = stragglers
        self._take_stack = take_stack
        self._profile = profile
        self._examiner = examiner
        self._orders = orders
        self._seat = seat
        self._mover = mover
        self._voting = voting
        self.identity = settings.identity
        self.health_names: Sequence[str] = ("", SERVICE_NAME, wire.health_name(self.identity))
        self._files = FileThread()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Have the server answer the calls of this service and of the service that examines its host."""
        agent_pb2_grpc.add_AgentServicer_to_server(self, server)
        preflight = PreflightService(self._settings.cluster, self._examiner)
        preflight_pb2_grpc.add_PreflightServicer_to_server(preflight, server)
        if self._seat is not None:
            serve_placements(server, PlacementService(self._settings.cluster, self._seat))
        if self._voting is not None:
            serve_votes(server, self._voting)

    def Watch(
        self, request: agent_pb2.WatchRequest, context: _Context[agent_pb2.WatchRequest, agent_pb2.WatchReply]
    ) -> AsyncGenerator[Any, None]:  # WatchReply, and bytes that are one
        schema = wire.agreed_schema(request.schema_version)
        if schema is None:
            raise Unsupported(
                f"this agent answers in schema {OLDEST_SCHEMA} or newer, the console reads up to "
                f"{request.schema_version}: update it"
            )
        _logger.debug("%s watches", context.peer())
        return frame_stream(request, schema=schema, feed=self._feed, describe=self._describe, placement=self._placement)

    def _placement(self) -> Placement | None:
        return None if self._seat is None else self._seat.placement

    async def Describe(
        self, request: agent_pb2.DescribeRequest, context: _Context[agent_pb2.DescribeRequest, agent_pb2.Description]
    ) -> agent_pb2.Description:
        return wire.description_message(self._describe())

    async def Restart(
        self, request: agent_pb2.TasksRequest, context: _Context[agent_pb2.TasksRequest, agent_pb2.Progress]
    ) -> AsyncIterator[agent_pb2.Progress]:
        async for progress in self._commands.progress(
            Verb.RESTART, request, ORDERED_BY.get(), context.time_remaining()
        ):
            yield progress

    async def Stop(
        self, request: agent_pb2.TasksRequest, context: _Context[agent_pb2.TasksRequest, agent_pb2.Progress]
    ) -> AsyncIterator[agent_pb2.Progress]:
        async for progress in self._commands.progress(Verb.STOP, request, ORDERED_BY.get(), context.time_remaining()):
            yield progress

    async def Start(
        self, request: agent_pb2.TasksRequest, context: _Context[agent_pb2.TasksRequest, agent_pb2.Progress]
    ) -> AsyncIterator[agent_pb2.Progress]:
        async for progress in self._commands.progress(Verb.START, request, ORDERED_BY.get(), context.time_remaining()):
            yield progress

    async def FollowLog(
        self, request: agent_pb2.FollowLogRequest, context: _Context[agent_pb2.FollowLogRequest, agent_pb2.LogChunk]
    ) -> AsyncIterator[agent_pb2.LogChunk]:
        path = self._settings.files.audit if request.orders else self._settings.files.log
        async with aclosing(read_log(path, request.tail, request.follow, self._files)) as log:
            async for lines in log:
                yield wire.log_message(lines)

    async def Stack(
        self, request: agent_pb2.StackRequest, context: _Context[agent_pb2.StackRequest, agent_pb2.StackReply]
    ) -> agent_pb2.StackReply:
        return wire.stack_message(await self._take_stack())

    async def Profile(
        self, request: agent_pb2.ProfileRequest, context: _Context[agent_pb2.ProfileRequest, agent_pb2.ProfileReply]
    ) -> AsyncIterator[agent_pb2.ProfileReply]:
        _logger.info("a profile of %g s is asked for by %s", request.seconds, context.peer())
        self._local.add_to_reason(f"a profile was asked for at {clock(time.time())} by {ORDERED_BY.get()}")
        async with aclosing(self._profile(request.seconds, request.fetch)) as steps:
            async for progress in steps:
                yield wire.profile_message(progress)

    async def Order(
        self, request: agent_pb2.OrderRequest, context: _Context[agent_pb2.OrderRequest, agent_pb2.OrderReply]
    ) -> agent_pb2.OrderReply:
        order, carry_out = ORDERS.get(request.name), self._orders.get(request.name)
        if order is None or carry_out is None:
            known = ", ".join(self._orders)
            raise UsageError(f"no order {bounded(request.name, wire.MOST_REASON)!r}: this agent carries out {known}")
        argument = bounded(request.argument, wire.MOST_REASON)
        other = None if order.subject is Subject.TASK else await self._commands.other_lead(request.carried_for)
        if other is not None:
            return agent_pb2.OrderReply(done=await other.carry_order(request.name, argument, ORDERED_BY.get()))
        done = await carry_out(argument)
        self._local.add_to_reason(f"{done} at {clock(time.time())} by {ORDERED_BY.get()}")
        return agent_pb2.OrderReply(done=done)

    async def Apply(
        self, request: agent_pb2.ApplyRequest, context: _Context[agent_pb2.ApplyRequest, telemetry_pb2.TaskStatus]
    ) -> telemetry_pb2.TaskStatus:
        await self._local.learn(_counts_in(request.counts))
        checks = {agent_pb2.ApplyRequest.TARGET_STOPPABLE: False, agent_pb2.ApplyRequest.TARGET_STARTABLE: True}
        match request.target:
            case agent_pb2.ApplyRequest.TARGET_STOPPED:
                verb = wire.verb_record(request.verb)
                status = await self._local.fence(request.generation, wire.reason_record(request), verb=verb)
            case agent_pb2.ApplyRequest.TARGET_RUNNING:
                status = await self._local.run(request.generation, wire.reason_record(request))
            case target if target in checks:
                await self._local.check(request.generation, checks[target])
                status = await self._local.status()
            case target:
                raise UsageError(f"unknown target {target}")
        return wire.status_message(status)

    async def ReportFailure(
        self,
        request: agent_pb2.FailureReport,
        context: _Context[agent_pb2.FailureReport, agent_pb2.FailureVerdict],
    ) -> agent_pb2.FailureVerdict:
        if request.ByteSize() > _MOST_REPORT:
            raise UsageError(f"a report has at most {_MOST_REPORT} bytes")
        if self._acting is None:
            raise Unsupported(self._no_recovery())
        await self._local.learn(_counts_in(request.counts))
        return wire.verdict_message(await self._acting.hear(wire.failure_record(request)))

    async def _begun(self, verb: Verb, request: agent_pb2.TasksRequest) -> Operation:
        """Begin the command that a request asks for. Raises TfscaleError."""
        expected = request.expected_generation or None
        if request.HasField("by_policy"):
            return await self._begun_by_policy(verb, request, expected)
        if not request.without:
            return await self._gang.command(
                verb, [Task.parse(name) for name in request.tasks], _reason_with_giver(request), expected
            )
        if verb is not Verb.RESTART:
            raise UsageError(f"a {verb} without hosts: only a restart places tasks anew")
        if self._mover is None:
            raise Unsupported("tasks stay where they are: give [spares], or min_workers in [recovery], to all agents")
        return await self._mover.without(request.without[:_MOST_HOSTS], _reason_with_giver(request), expected)

    async def _begun_by_policy(self, verb: Verb, request: agent_pb2.TasksRequest, expected: int | None) -> Operation:
        """Begin the restart of a slow task for which a console asks by the policy. Raises TfscaleError."""
        if verb is not Verb.RESTART or len(request.tasks) != 1 or request.without:
            raise UsageError("on_straggler is a restart of one task")
        if self._stragglers is None:
            raise Unsupported(self._no_recovery() if self._acting is None else "on_straggler needs the lead's agent")
        task, policy = Task.parse(request.tasks[0]), request.by_policy
        reason = wire.reason_record(request).text
        known = bounded(policy.on_straggler, wire.MOST_REASON)
        return await self._stragglers.begin(task, known, reason, expected, was_worth_it=policy.was_worth_it)

    def _no_recovery(self) -> str:
        return f"the cluster file of {self._settings.task} has no [recovery]: give all agents the same file"


def _counts_in(text: str) -> RecoveryCounts:
    """Return the counts that came with a request. Raises UsageError."""
    try:
        return received_counts(text, steady_time())
    except ValueError as error:
        raise UsageError(str(error)) from None


def _reason_with_giver(request: agent_pb2.TasksRequest) -> Reason:
    """Return the reason of an operator's order with the operator, for the events of every console."""
    caller = ORDERED_BY.get()
    giver = f"{bounded(request.carried_for, _MOST_GIVER)}, carried by {caller}" if request.carried_for else caller
    return Reason(f"{wire.reason_record(request).text or 'asked for'} by {giver}")
