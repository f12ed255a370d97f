"""Voters with real journals in one process, without a network."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tfscale.agent.consensus.quorum import Quorum, VoterLink
from tfscale.agent.consensus.register import Register, drawn
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.votes import NO_ANSWER, Answer, Founder, Question
from tfscale.core.cluster.placement.electorate import Electorate

NAMES = ("a:1", "b:1", "c:1")
ELECTORATE = Electorate(NAMES)


class LocalVoters:
    """Three voters with their journals in a folder, of which some do not answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.silent: set[str] = set()
        self.voters = {name: self.read(name) for name in NAMES}
        self.links: dict[str, VoterLink] = {name: _Link(self, name) for name in NAMES}
        self.quorum = Quorum(self.links, patience=0.5)

    def read(self, name: str) -> Voter:
        """Return the voter of a process that has just begun."""
        return Voter(VoteJournal(VoteFile(self.file(name)), ELECTORATE.fingerprint, drawn(Random())))

    def file(self, name: str) -> Path:
        """Return the path of a voter's journal."""
        return self._folder / f"{name[0]}.json"

    def restart(self, name: str, *, has_lost: bool = False) -> None:
        """Replace a voter by that of the next process, whose disk may have lost its journal."""
        if has_lost:
            self.file(name).unlink()
        self.voters[name] = self.read(name)

    async def found(self) -> None:
        """Have all voters vote: nothing was decided yet."""
        founders = [Founder(name, voter.life) for name, voter in self.voters.items()]
        for voter in self.voters.values():
            await voter.found(founders)

    def register(self, name: str = "a:1", patience: float = 5.0) -> Register:
        """Return the register as an agent has it."""
        return Register(name, ELECTORATE, self.quorum, Random(), patience)


class _Link:
    def __init__(self, voters: LocalVoters, name: str) -> None:
        self._voters, self._name = voters, name

    async def ask(self, question: Question) -> Answer:
        return NO_ANSWER if self._name in self._voters.silent else await self._voters.voters[self._name].ask(question)
