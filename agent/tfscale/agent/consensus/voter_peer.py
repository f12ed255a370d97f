"""Voter of another agent, over gRPC."""

from __future__ import annotations

from collections.abc import Awaitable

import grpc.aio
from tfscale.agent import wire
from tfscale.agent.consensus.vote_messages import Request, answer_of, request_of
from tfscale.agent.consensus.votes import NO_ANSWER, Answer, Question, Silence
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import ChannelOpener, RenewedChannel
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.text import printable
from tfscale.core.version import installed_version
from tfscale.core.wire.fields import WireError
from tfscale.v1 import agent_pb2, agent_pb2_grpc, consensus_pb2, consensus_pb2_grpc

_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

_PATIENCE = 1.0
"""Seconds in which an agent that does not vote tells its version."""


class VoterPeer:
    """Voter at an agent's address. `electorate` is the fingerprint of all voters, as this agent's file has them."""

    def __init__(self, address: Address, to: TaskIdentity, electorate: str, opener: ChannelOpener) -> None:
        self._to, self._electorate = to, electorate
        self._channel = RenewedChannel(opener, address)
        self._why_none = ""
        """Reason for which the agent has no voter, once it has told its version: the next answer comes at once."""

    async def ask(self, question: Question) -> Answer:
        """Return the voter's answer, Silence with the reason where there is none."""
        try:
            return answer_of(await self._send(request_of(question, self._to, self._electorate)))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                self._why_none = self._why_none or await self._why_no_voter()
                return Silence(self._why_none)
            return NO_ANSWER if error.code() in _GONE else Silence(error.details() or error.code().name)
        except WireError as error:
            return Silence(str(error))

    async def _why_no_voter(self) -> str:
        """Return why the agent does not know the question: it is an earlier version, or its file lets no task move."""
        stub, own = agent_pb2_grpc.AgentStub(self._channel.opened()), installed_version() or ""
        request = agent_pb2.DescribeRequest(to=wire.identity_message(self._to))
        try:
            version = printable((await stub.Describe(request, timeout=_PATIENCE)).version)
        except grpc.aio.AioRpcError:
            version = own
        if version != own:
            return f"does not vote, because it is of version {version}, and this one of {own}: upgrade it"
        return "does not vote: give it the same cluster file, whose [spares] or min_workers let tasks move"

    def _send(self, request: Request) -> Awaitable[consensus_pb2.VoteReply]:
        stub = consensus_pb2_grpc.ConsensusStub(self._channel.opened())
        match request:
            case consensus_pb2.PrepareRequest():
                return stub.Prepare(request)
            case consensus_pb2.AcceptRequest():
                return stub.Accept(request)
            case consensus_pb2.LookRequest():
                return stub.Look(request)
            case _:
                return stub.Introduce(request)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
