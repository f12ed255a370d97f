"""Voter of another agent, over gRPC."""

from __future__ import annotations

from collections.abc import Awaitable

import grpc.aio
from tfscale.agent.consensus.vote_messages import Request, answer_of, request_of
from tfscale.agent.consensus.votes import NO_ANSWER, Answer, Question, Silence
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import ChannelOpener, RenewedChannel
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.wire.fields import WireError
from tfscale.v1 import consensus_pb2, consensus_pb2_grpc

_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

_NO_VOTER = Silence("does not vote: give all agents the same cluster file, and one version")


class VoterPeer:
    """Voter at an agent's address. `electorate` is the fingerprint of all voters, as this agent's file has them."""

    def __init__(self, address: Address, to: TaskIdentity, electorate: str, opener: ChannelOpener) -> None:
        self._to, self._electorate = to, electorate
        self._channel = RenewedChannel(opener, address)

    async def ask(self, question: Question) -> Answer:
        """Return the voter's answer, Silence with the reason where there is none."""
        try:
            return answer_of(await self._send(request_of(question, self._to, self._electorate)))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return _NO_VOTER
            return NO_ANSWER if error.code() in _GONE else Silence(error.details() or error.code().name)
        except WireError as error:
            return Silence(str(error))

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
