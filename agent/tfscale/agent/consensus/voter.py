"""Voter: one of the agents whose majority decides. Each of its answers is on its disk before it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from tfscale.agent.consensus.ballot import NO_BALLOT, Ballot
from tfscale.agent.consensus.decision import EMPTY, Decision
from tfscale.agent.consensus.votes import (
    Abstention,
    Accept,
    Acceptance,
    Answer,
    Founder,
    Introduction,
    Look,
    Prepare,
    Promise,
    Question,
    Refusal,
    Sight,
)


@dataclass(frozen=True, slots=True)
class VoterEntry:
    """Everything that a voter must never forget."""

    life: str
    """Random name of the journal: one that was lost, and begins anew, has another."""
    is_voting: bool = False
    """False while the voter is new: an empty journal may be a first one, or one whose votes are lost."""
    founders: tuple[Founder, ...] = ()
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    decision: Decision = EMPTY
    """Decision that was accepted in the ballot `accepted`."""


class KeptEntry(Protocol):
    """Entry that is kept on disk."""

    entry: VoterEntry

    async def put(self, entry: VoterEntry) -> None:
        """Keep another entry, on disk first. Raises TfscaleError, and keeps the former one."""


class Voter:
    """Voter; its state is the entry of its journal, and nothing else. Raises what the journal raises."""

    def __init__(self, journal: KeptEntry) -> None:
        self._journal = journal
        self._answering = asyncio.Lock()

    @property
    def is_voting(self) -> bool:
        """False while the voter is new."""
        return self._journal.entry.is_voting

    @property
    def life(self) -> str:
        """Life of its journal."""
        return self._journal.entry.life

    async def ask(self, question: Question) -> Answer:
        """Return the voter's answer, once what it says is on disk."""
        async with self._answering:
            match question:
                case Prepare():
                    return await self._promise(question)
                case Accept():
                    return await self._accept(question)
                case Look():
                    entry = self._journal.entry
                    return Sight(entry.accepted, entry.decision) if entry.is_voting else Abstention()
                case _:
                    entry = self._journal.entry
                    await self._journal.put(entry)  # others write its life down
                    return Introduction(entry.life, entry.is_voting, entry.founders)

    async def _promise(self, asked: Prepare) -> Answer:
        entry = self._journal.entry
        if not entry.is_voting:
            return Abstention()
        if asked.ballot < entry.promised:
            return Refusal(entry.promised)
        await self._journal.put(replace(entry, promised=asked.ballot))
        return Promise(entry.life, entry.accepted, entry.decision)

    async def _accept(self, asked: Accept) -> Answer:
        """Accept what was promised in this life; another one's promise was given without what was decided since."""
        entry = self._journal.entry
        if not entry.is_voting:
            return Abstention()
        if asked.ballot != entry.promised or asked.life != entry.life:
            return Refusal(entry.promised)
        await self._journal.put(replace(entry, accepted=asked.ballot, decision=asked.decision))
        return Acceptance()

    async def found(self, founders: Iterable[Founder]) -> None:
        """Vote from now on, with nothing decided: all voters are new."""
        async with self._answering:
            await self._begin(founders=tuple(founders))

    async def adopt(self, ballot: Ballot, newest: Promise) -> None:
        """Vote from now on, in ballots newer than this one, which enough others have promised.

        `newest` is the promise of the newest decision among theirs.
        """
        async with self._answering:
            await self._begin(promised=ballot, accepted=newest.accepted, decision=newest.decision)

    async def _begin(self, **known: object) -> None:
        if not self.is_voting:
            await self._journal.put(replace(self._journal.entry, is_voting=True, **known))  # type: ignore[arg-type]
