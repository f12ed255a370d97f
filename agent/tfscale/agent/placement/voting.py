"""Share of one agent in the agreement of its cluster: its register, and its own voter where it has one."""

from __future__ import annotations

import asyncio
from random import SystemRandom

from tfscale.agent.consensus.joining import Joining
from tfscale.agent.consensus.quorum import Quorum, VoterLink
from tfscale.agent.consensus.register import Register, drawn
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.voter_peer import VoterPeer
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import parse_address
from tfscale.core.cluster.placement.electorate import electorate_of
from tfscale.core.cluster.security import ChannelOpener, certificates_of
from tfscale.core.cluster.task_identity import TaskIdentity


class Voting:
    """Register of one seat, and its voter; both outlive the daemons of the seat.

    The folder of the run's state must be there. Raises VoteJournalError and SecurityError.
    """

    def __init__(self, settings: AgentSettings) -> None:
        assert settings.seat is not None
        spec, own, random = settings.cluster, settings.seat, SystemRandom()
        self.electorate = electorate_of(spec)
        fingerprint, to = self.electorate.fingerprint, TaskIdentity(settings.run, "", spec.fingerprint)
        self.opener = ChannelOpener(spec, settings.insecure, certificates_of(spec, settings.insecure, is_agent=True))
        """Opener of channels to other seats; a daemon of the seat renews its certificates."""
        addresses = {name: parse_address(name) for name in self.electorate.voters}
        self._peers = {
            name: VoterPeer(address, to, fingerprint, self.opener)
            for name, address in addresses.items()
            if address != own
        }
        links: dict[str, VoterLink] = dict(self._peers)
        self.voter: Voter | None = None
        """None where this agent does not vote."""
        if str(own) in addresses:
            file = VoteFile(settings.files.folder / f"vote-{own.host}-{own.port}.json")
            links[str(own)] = self.voter = Voter(VoteJournal(file, fingerprint, drawn(random)))
        self._quorum = Quorum(links)
        self.register = Register(str(own), self.electorate, self._quorum, random)
        self._joining: asyncio.Task[None] | None = None
        self._joins = (
            None if self.voter is None else Joining(str(own), self.voter, self.electorate, self._quorum, random)
        )

    def start(self) -> None:
        """Begin to vote, as soon as the other voters allow it; later calls do nothing.

        An agent that serves is the only one of its seat: before that, a second one could write the same journal.
        """
        if self._joins is not None and self._joining is None:
            self._joining = asyncio.create_task(self._joins.run())

    async def close(self) -> None:
        """End the calls to other voters."""
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        await self._quorum.close()
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
