"""gRPC service of an agent that votes. It only translates."""

from __future__ import annotations

import grpc.aio
from tfscale.agent.consensus.vote_messages import Request, question_of, reply_of
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.placement.voting import Voting
from tfscale.agent.serving.status_codes import Stranger
from tfscale.core.text import bounded
from tfscale.v1 import consensus_pb2, consensus_pb2_grpc

CONSENSUS_NAME = consensus_pb2.DESCRIPTOR.services_by_name["Consensus"].full_name
_Context = grpc.aio.ServicerContext


def serve_votes(server: grpc.aio.Server, voting: Voting) -> None:
    """Have the server answer for the agent's voter, if it has one."""
    if voting.voter is not None:
        service = ConsensusService(voting.voter, voting.electorate.fingerprint)
        consensus_pb2_grpc.add_ConsensusServicer_to_server(service, server)


class ConsensusService(consensus_pb2_grpc.ConsensusServicer):
    """Service of one voter; `electorate` is the fingerprint of all voters."""

    def __init__(self, voter: Voter, electorate: str) -> None:
        self._voter, self._electorate = voter, electorate

    async def Prepare(
        self,
        request: consensus_pb2.PrepareRequest,
        context: _Context[consensus_pb2.PrepareRequest, consensus_pb2.VoteReply],
    ) -> consensus_pb2.VoteReply:
        return await self._answered(request)

    async def Accept(
        self,
        request: consensus_pb2.AcceptRequest,
        context: _Context[consensus_pb2.AcceptRequest, consensus_pb2.VoteReply],
    ) -> consensus_pb2.VoteReply:
        return await self._answered(request)

    async def Look(
        self,
        request: consensus_pb2.LookRequest,
        context: _Context[consensus_pb2.LookRequest, consensus_pb2.VoteReply],
    ) -> consensus_pb2.VoteReply:
        return await self._answered(request)

    async def Introduce(
        self,
        request: consensus_pb2.IntroduceRequest,
        context: _Context[consensus_pb2.IntroduceRequest, consensus_pb2.VoteReply],
    ) -> consensus_pb2.VoteReply:
        return await self._answered(request)

    async def _answered(self, request: Request) -> consensus_pb2.VoteReply:
        """Return the voter's answer. Raises Stranger for a request among other voters."""
        if request.electorate != self._electorate:
            raise Stranger(
                f"this agent votes among the voters {self._electorate}, and the request is for "
                f"{bounded(request.electorate, 20) or 'none'}: give both the same [agents] and [spares] in the cluster "
                "file"
            )
        return reply_of(await self._voter.ask(question_of(request)))
