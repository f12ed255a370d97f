"""Votes over real gRPC, through the gatekeeper of an agent."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

import grpc
import grpc.aio
import pytest
from running_agents import W0
from tfscale.agent.consensus.ballot import NO_BALLOT, Ballot
from tfscale.agent.consensus.decision import EMPTY
from tfscale.agent.consensus.quorum import Quorum
from tfscale.agent.consensus.register import NoMajority, Register
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.voter_peer import VoterPeer
from tfscale.agent.consensus.votes import (
    Abstention,
    Accept,
    Acceptance,
    Introduce,
    Introduction,
    Look,
    Prepare,
    Promise,
    Refusal,
    Sight,
    Silence,
)
from tfscale.agent.life.self_description import local_agent
from tfscale.agent.serving.agent_server import AgentServer
from tfscale.agent.serving.consensus_service import ConsensusService
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.local.local_agents import announced
from tfscale.core.cluster.placement.electorate import Electorate
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.v1 import consensus_pb2, consensus_pb2_grpc

TOKEN = "token"
FIRST = Ballot(1, "p")


class Served:
    """Service of the voter alone."""

    health_names: Sequence[str] = ("",)

    def __init__(self, identity: TaskIdentity, service: ConsensusService) -> None:
        self.identity, self._service = identity, service

    def add_to(self, server: grpc.aio.Server, /) -> None:
        consensus_pb2_grpc.add_ConsensusServicer_to_server(self._service, server)


@pytest.fixture
def settings(settings_of: Callable[..., AgentSettings]) -> AgentSettings:
    settings = settings_of(W0)
    settings.files.folder.mkdir(parents=True)
    return settings


@asynccontextmanager
async def voting(settings: AgentSettings, electorate: str) -> AsyncIterator[Voter]:
    """Serve a voter at the agent's address."""
    voter = Voter(VoteJournal(VoteFile(settings.files.folder / "votes.json"), electorate, "life"))
    served = Served(settings.identity, ConsensusService(voter, electorate))
    server = AgentServer(settings, served, None, TOKEN, settings.files.audit)
    with announced(local_agent(settings, "voter", time.time(), TOKEN), os.environ):
        await server.start()
        try:
            yield voter
        finally:
            await server.stop()


@asynccontextmanager
async def peer(settings: AgentSettings, electorate: str, fingerprint: str = "") -> AsyncIterator[VoterPeer]:
    to = TaskIdentity(settings.run, "", fingerprint or settings.cluster.fingerprint)
    peer = VoterPeer(settings.listen, to, electorate, ChannelOpener(settings.cluster, False, None))
    try:
        yield peer
    finally:
        await peer.close()


async def test_each_question_and_answer_arrives_as_it_was(settings: AgentSettings) -> None:
    decision = EMPTY.changed("c", bytes(range(256)))
    async with voting(settings, "e") as voter, peer(settings, "e") as other:
        assert await other.ask(Introduce()) == Introduction("life", False, ())
        assert await other.ask(Look()) == Abstention()
        await voter.found([])
        assert await other.ask(Look()) == Sight(NO_BALLOT, EMPTY)
        assert await other.ask(Prepare(FIRST)) == Promise("life", NO_BALLOT, EMPTY)
        assert await other.ask(Accept(FIRST, "life", decision)) == Acceptance()
        assert await other.ask(Look()) == Sight(FIRST, decision)
        assert await other.ask(Prepare(Ballot(2, "q"))) == Promise("life", FIRST, decision)
        assert await other.ask(Prepare(FIRST)) == Refusal(Ballot(2, "q"))
    assert not settings.files.audit.exists()


async def test_a_stranger_is_refused_with_one_line(settings: AgentSettings) -> None:
    async with voting(settings, "e"), peer(settings, "f") as other, peer(settings, "e", "01234567") as stranger:
        said = await other.ask(Introduce())
        assert isinstance(said, Silence) and "among the voters e, and the request is for f: give both the" in said.why
        said = await stranger.ask(Introduce())
        assert isinstance(said, Silence) and "give both the same [cluster]" in said.why and "\n" not in said.why


async def test_a_caller_without_the_token_may_not_vote(settings: AgentSettings) -> None:
    async with voting(settings, "e"), grpc.aio.insecure_channel(str(settings.listen)) as channel:
        stub = consensus_pb2_grpc.ConsensusStub(channel)
        for call, request in (
            (stub.Prepare, consensus_pb2.PrepareRequest()),
            (stub.Accept, consensus_pb2.AcceptRequest()),
            (stub.Look, consensus_pb2.LookRequest()),
            (stub.Introduce, consensus_pb2.IntroduceRequest()),
        ):
            assert await call(request, timeout=5).code() is grpc.StatusCode.PERMISSION_DENIED


async def test_what_can_be_no_vote_is_refused(settings: AgentSettings) -> None:
    async with voting(settings, "e") as voter, peer(settings, "e") as other:
        await voter.found([])
        for ballot in (Ballot(0, "p"), Ballot(1, ""), Ballot(1 << 60, "p")):
            said = await other.ask(Prepare(ballot))
            assert isinstance(said, Silence) and "a ballot without a number" in said.why
        said = await other.ask(Accept(FIRST, "life", EMPTY.changed("c", b"x" * 70_000)))
        assert isinstance(said, Silence) and "at most 65536 bytes" in said.why


async def test_an_agent_that_is_not_there_is_named(settings: AgentSettings) -> None:
    name = str(settings.listen)
    electorate = Electorate((name,))
    async with peer(settings, electorate.fingerprint) as other:
        register = Register(name, electorate, Quorum({name: other}), Random(), patience=0.1)
        with pytest.raises(NoMajority, match=rf"{name}: does not answer: start its agent"):
            await register.read()
        async with voting(settings, electorate.fingerprint) as voter:
            await voter.found([])
            again = Register(name, electorate, Quorum({name: other}), Random(), patience=10)
            assert (await again.change(lambda _: b"x")).value == b"x"
