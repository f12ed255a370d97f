"""Start of a voter that is new: it learns what was decided, or that nothing can have been, before it votes.

Its journal may be a first one or one whose disk was lost; the voter itself cannot tell. A promise and an acceptance
that are lost with a journal must not be missed, so

- it votes at once only where all voters are new together, or where another one knows of that: each writes down the
  lives of those that it has seen to be new, and a life that is among them has never voted;
- otherwise it has enough others promise a ballot, and begins with the newest decision that these have accepted. An
  older ballot, in which its lost vote may count, is either among what it learns or finds no majority any more.

Silence is no news: who does not answer may be the one that knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from random import Random

from tfscale.agent.consensus.ballot import NO_BALLOT, Ballot, next_ballot
from tfscale.agent.consensus.proposal import newest_promise
from tfscale.agent.consensus.quorum import Quorum, promises_in
from tfscale.agent.consensus.register import drawn
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.votes import Answer, Founder, Introduce, Introduction, Prepare, Refusal
from tfscale.core.cluster.placement.electorate import Electorate
from tfscale.core.errors import TfscaleError

_SOON, _AGAIN = 0.2, 2.0
"""Seconds between two attempts at most: first, as the agents of a cluster start together, and in the end."""
_logger = logging.getLogger(__name__)


def founders_among(own: Founder, answers: Mapping[str, Answer]) -> tuple[Founder, ...] | None:
    """Return the voters that were new together with this one, None where that is not known of each voter asked."""
    seen = {name: answer for name, answer in answers.items() if isinstance(answer, Introduction)}
    for answer in seen.values():
        if own in answer.founders:
            return answer.founders
    if len(seen) < len(answers) or any(answer.is_voting for answer in seen.values()):
        return None
    return tuple(sorted([own, *(Founder(name, answer.life) for name, answer in seen.items())]))


class Joining:
    """Start of one voter; `name` is its name in the electorate."""

    def __init__(self, name: str, voter: Voter, electorate: Electorate, quorum: Quorum, random: Random) -> None:
        self._name, self._voter, self._electorate, self._quorum = name, voter, electorate, quorum
        self._others = [each for each in electorate.voters if each != name]
        self._random = random
        self._seen = NO_BALLOT

    async def run(self) -> None:
        """Return once the voter votes."""
        pause = _SOON
        while not self._voter.is_voting:
            try:
                await self._attempt()
            except TfscaleError as error:  # of the own disk
                _logger.error("%s", error)
            if not self._voter.is_voting:
                await asyncio.sleep(self._random.uniform(pause / 2, pause))
                pause = min(_AGAIN, 2 * pause)

    async def _attempt(self) -> None:
        await self._voter.ask(Introduce())  # its life is on disk before others hear of it
        answers = await self._quorum.ask_all({name: Introduce() for name in self._others})
        founders = founders_among(Founder(self._name, self._voter.life), answers)
        if founders is not None:
            await self._voter.found(founders)
        else:
            await self._learn(next_ballot([self._seen], f"{self._name}/{drawn(self._random)}"))

    async def _learn(self, ballot: Ballot) -> None:
        needed = self._electorate.enough_to_learn
        answers = await self._quorum.ask({name: Prepare(ballot) for name in self._others}, needed)
        promises = promises_in(answers)
        if len(promises) >= needed:
            await self._voter.adopt(ballot, newest_promise(promises))
        newer = [answer.promised for answer in answers.values() if isinstance(answer, Refusal)]
        self._seen = max((ballot, *newer))
