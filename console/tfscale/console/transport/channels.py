"""Channels from the console to the agents: two a task, for its stream and for commands, opened when first needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from tfscale.console.transport.readable_channel import readable
from tfscale.console.transport.ways import Ways
from tfscale.console.wire import calls
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import SecurityError, day
from tfscale.core.access.tls_fault import could_be_tls, tls_fault
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.local import open_files
from tfscale.core.cluster.placement.placement import PlacementError, file_placement, parse_placement, seats_of
from tfscale.core.cluster.security import channel_opener
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.errors import TfscaleError
from tfscale.core.text import printable
from tfscale.v1 import agent_pb2
from tfscale.v1.agent_pb2_grpc import AgentStub
from tfscale.v1.placement_pb2_grpc import PlacementStub
from tfscale.v1.preflight_pb2_grpc import PreflightStub

if TYPE_CHECKING:
    from tfscale.v1.agent_pb2_grpc import AgentAsyncStub
    from tfscale.v1.preflight_pb2_grpc import PreflightAsyncStub

_logger = logging.getLogger(__name__)
_WATCH = f"/{agent_pb2.DESCRIPTOR.services_by_name['Agent'].full_name}/Watch"
_OPTIONS = (
    # The estimate of a line's bandwidth takes a ping a frame, a quarter of the cost of reading a thousand agents.
    # Without it the window is fixed, see `_window`.
    ("grpc.http2.bdp_probe", 0),
    # The console tries again by itself and reads no statistics; both cost 10 kB a channel.
    ("grpc.enable_retries", 0),
    ("grpc.enable_channelz", 0),
    # An agent that is stopped, whose host still acknowledges what is sent to it: gRPC would wait for a minute.
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 800),
)
_PATIENCE = 1.0
"""Seconds for the question why a connection failed: then the link is tried again."""
_FILES = 32
"""Open files that a console needs besides those of its streams (chosen): with 16 it was seen to work, with 12 not."""
_RELAYED = 6
"""Open files for an agent that is relayed: two channels with both their ends here, the socket, and a try."""
_MOST_ASKING = 4
"""Largest number of failed connections asked for a reason at once: if all fail, a few reasons tell why."""


class CommandError(TfscaleError):
    """A command that an agent did not carry out; the message says why and what to do."""


class Channels:
    """Channels by task. A stream has a channel of its own: when it is replaced, a long command goes on.

    `entry` is the address of an agent that the operator has named, where that led to the cluster.
    Raises SecurityError where an agent may not be dialled or a certificate cannot be read, and UsageError where too few
    open files are allowed for all streams.
    """

    def __init__(self, spec: ClusterSpec, *, insecure: bool = False, entry: Address | None = None) -> None:
        open_files.allow(_FILES + len(spec.agents) * (1 if entry is None else _RELAYED))
        self.spec = spec
        self.placement = file_placement(spec)
        """The newest placement that any agent has told."""
        self._newest_text = ""
        """Placement that an agent has told last, as JSON: most tell the same."""
        self.runs: dict[Task, str] = {}
        """Run of each task, as its agent has described itself last."""
        self._fingerprint = spec.fingerprint
        window = ("grpc.http2.lookahead_bytes", _window(len(spec.agents)))
        self._opener = channel_opener(spec, insecure, (*_OPTIONS, window))
        if (own := self._opener.certificates) is not None and own.facts.ends_soon(time.time()):
            _logger.warning("%s expires on %s: renew it before", own.tls.certificate, day(own.facts.end))
        self._version = self._opener.version
        self._ways = Ways(self._opener, spec.agents.values(), self._fingerprint, entry)
        self._channels: dict[Task, grpc.aio.Channel] = {}
        self._streams: dict[Task, grpc.aio.Channel] = {}
        self._stubs: dict[Task, AgentAsyncStub] = {}
        self._replaced: list[grpc.aio.Channel] = []
        """Channels of older certificates, over which calls may be under way."""
        self._asking = 0
        """Number of connections that are being asked at this moment for a fault of TLS."""

    def address(self, task: Task) -> Address:
        """Return the address of a task's agent; for a vacant task its address in the cluster file."""
        return self.placement.seats.get(task, self.spec.agents[task])

    def follow(self, placement: str) -> None:
        """Dial the agents of this placement, which an agent has sent, unless a newer one is known."""
        if placement == self._newest_text:
            return
        self._newest_text = placement
        try:
            newest = parse_placement(placement, self.spec)
        except PlacementError as error:
            _logger.warning("%s", error)
            return
        if not newest.is_newer(self.placement):
            return
        before, self.placement = self.placement, newest
        for task in self.spec.agents:
            if before.seats.get(task) != newest.seats.get(task):
                self._stubs.pop(task, None)
                self._replaced += [kept.pop(task) for kept in (self._channels, self._streams) if task in kept]

    async def find_way(self, task: Task) -> None:
        """Find out how the task's agent can be reached, where it cannot be dialled. It may take seconds."""
        address = self.address(task)
        before = self._ways.socket(address)
        await self._ways.find(address)
        if self._ways.socket(address) != before:
            await self._drop(task)

    def heard(self, task: Task) -> str:
        """Note that the task's agent answers, and return by which way in words; empty where it is dialled."""
        address = self.address(task)
        self._ways.heard(address, str(task))
        return self._ways.words(address)

    async def lost(self, task: Task, *, is_stranger: bool = False) -> bool:
        """Note that the task's agent does not answer, and return whether another way may be found in a moment.

        `is_stranger` is true where one of another cluster answers at its address.
        """
        address = self.address(task)
        was_relayed = bool(self._ways.socket(address))
        self._ways.lost(address, is_stranger=is_stranger)
        if was_relayed:
            await self._drop(task)
        return self._ways.may_find(address)

    async def locate(self, seats: Sequence[Address] | None = None) -> None:
        """Ask the agents of `seats`, by default all, for the newest placement; a stream sends it unasked."""
        to = TaskIdentity(fingerprint=self._fingerprint)

        async def ask(seat: Address) -> None:
            await self._ways.find(seat)
            async with self._opener.open(seat, socket=self._ways.socket(seat)) as channel:
                request = calls.seat_request(to, seat)
                with contextlib.suppress(grpc.aio.AioRpcError):  # it is not there, or its tasks never move
                    reply = await PlacementStub(readable(channel)).Seat(request, timeout=_PATIENCE)
                    self.follow(reply.placement)

        await asyncio.gather(*map(ask, seats_of(self.spec) if seats is None else seats))

    def identity(self, task: Task) -> TaskIdentity:
        """Return the names of a task's agent; the run is the lead's, or the agent's own while the lead's is unknown."""
        run = self.runs.get(self.spec.lead, self.runs.get(task, ""))
        return TaskIdentity(run, str(task), self._fingerprint)

    async def learn_name(self, address: Address) -> None:
        """Ask for the name of the agent at an address, which may be a forwarded port."""
        await self._opener.learn_name(address)

    def why_no_order(self) -> str:
        """Return why agents take no order of this console, by its own certificate; empty if they may."""
        tls, own = self._opener.tls, self._opener.certificates
        if tls is None or own is None or not tls.has_roles or (own.facts.role or 0) >= CallerRole.OPERATOR:
            return ""
        role = "has no role" if own.facts.role is None else f"is that of an {own.facts.role}"
        return f"its certificate {role}, which gives no orders"

    def stub(self, task: Task) -> AgentAsyncStub:
        """Return the stub of the task's agent, for use in one event loop."""
        self._replace_older()
        if task not in self._stubs:
            self._channels[task] = self._open(task)
            self._stubs[task] = AgentStub(readable(self._channels[task]))
        return self._stubs[task]

    def preflight(self, task: Task) -> PreflightAsyncStub:
        """Return the stub of the task's agent for examinations."""
        self.stub(task)
        return PreflightStub(readable(self._channels[task]))

    def watch(self, task: Task, request: agent_pb2.WatchRequest) -> grpc.aio.UnaryStreamCall[Any, bytes]:
        """Open the stream of the task's agent; its replies are left as bytes."""
        self._replace_older()
        if task not in self._streams:
            self._streams[task] = self._open(task, is_stream=True)
        serialize = agent_pb2.WatchRequest.SerializeToString
        call: grpc.aio.UnaryStreamCall[Any, bytes]
        call = self._streams[task].unary_stream(_WATCH, request_serializer=serialize)(request)
        return call

    def _open(self, task: Task, *, is_stream: bool = False) -> grpc.aio.Channel:
        address = self.address(task)
        return self._opener.open(address, is_stream=is_stream, socket=self._ways.socket(address))

    async def _drop(self, task: Task) -> None:
        """Close the channels of a task: its agent is reached by another way from now on."""
        self._stubs.pop(task, None)
        for kept in (self._channels, self._streams):
            if (channel := kept.pop(task, None)) is not None:
                await channel.close()

    async def forget(self, task: Task) -> None:
        """Close the connection of a silent stream: the next stream has another one.

        After a cut of 20 s TCP itself would wait for 10 s and more before it repeats unanswered data.
        """
        if (channel := self._streams.pop(task, None)) is not None:
            await channel.close()

    async def why(self, task: Task, error: grpc.aio.AioRpcError) -> str:
        """Return the fault of a call in a few words, a fault of TLS by its name.

        This side's certificate is first read anew, if its files have changed.
        """
        address = self.address(task)
        if error.code() is grpc.StatusCode.UNAVAILABLE and (problem := self._ways.problem(address)):
            return problem
        is_unknown = error.code() is grpc.StatusCode.UNAVAILABLE and could_be_tls(error.details() or "")
        if not is_unknown or self._asking >= _MOST_ASKING:
            return first_line(error)
        self._asking += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asyncio.to_thread(self._fault, address) or first_line(error)
        except TimeoutError:
            return first_line(error)
        finally:
            self._asking -= 1

    async def explain(self, task: Task, error: grpc.aio.AioRpcError) -> str:
        """Return `why`, after asking for a reason where only the agent's silence is known."""
        why = await self.why(task, error)
        is_absent = error.code() is grpc.StatusCode.UNAVAILABLE and why == first_line(error)
        return f"{why}; is tfscale-agent running there?" if is_absent else why

    def _fault(self, address: Address) -> str:
        if self._opener.certificates is not None:
            # New files that are wrong are this side's fault, which is told by their name below.
            with contextlib.suppress(SecurityError):
                self._opener.certificates.refresh()
        path, name = self._ways.socket(address), self._opener.names.get(address, "")
        return tls_fault(address, self._opener.tls, _PATIENCE, path=path, name=name)

    def _replace_older(self) -> None:
        """Have channels opened anew where this side has a newer certificate."""
        if self._version != self._opener.version:
            self._version = self._opener.version
            self._replaced += (*self._channels.values(), *self._streams.values())
            for kept in (self._channels, self._streams, self._stubs):
                kept.clear()

    async def close(self) -> None:
        """End all calls and connections."""
        for channel in (*self._channels.values(), *self._streams.values(), *self._replaced):
            await channel.close()
        for kept in (self._channels, self._streams, self._stubs):
            kept.clear()
        await self._ways.close()


def _window(agents: int) -> int:
    """Return the bytes of its past that each of `agents` agents may send unread.

    A mebibyte keeps a distant connection busy. All agents together send at most 64 MiB, which the console's memory
    holds, and each at least 64 KiB, with which HTTP/2 begins.
    """
    return max(64 << 10, min(1 << 20, (64 << 20) // agents))


def first_line(error: grpc.aio.AioRpcError) -> str:
    """Return the fault of a call in a few words."""
    details = (error.details() or "").strip()
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return "connection refused" if "refused" in details.lower() else "does not answer"
    return printable(details.splitlines()[0]) if details else error.code().name.lower().replace("_", " ")
