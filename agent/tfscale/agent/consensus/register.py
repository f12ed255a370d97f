"""Register that the agents share: it is read and changed with the votes of a majority, and has no leader.

CASPaxos (D. Rystsov, "CASPaxos: Replicated State Machines without logs", 2018): a change asks the voters for promises,
applies its function to the newest value that any of them has accepted, and has the result accepted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from random import Random

from tfscale.agent.consensus.ballot import NO_BALLOT, next_ballot
from tfscale.agent.consensus.decision import Decision
from tfscale.agent.consensus.proposal import Change, Overtaken, Proposal
from tfscale.agent.consensus.quorum import Quorum, agreeing, promises_in, sights_of_most
from tfscale.agent.consensus.votes import Abstention, Accept, Answer, Look, Prepare, Question, Refusal, Silence
from tfscale.core.cluster.placement.electorate import Electorate
from tfscale.core.errors import TfscaleError

_PATIENCE = 10.0
"""Seconds for a change in all: several ballots, of which each asks the voters twice."""
_FIRST_BREAK, _LONGEST_BREAK = 0.05, 1.0
"""Limits in seconds of the break after a ballot that failed, which doubles from the one to the other. It is drawn by
chance, so that two proposers that hinder one another part."""


class NoMajority(TfscaleError):
    """A change that was not made, and will not be. `silent` names the voters that did not answer."""

    def __init__(self, message: str, silent: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.silent = silent


class OutcomeUnknown(NoMajority):
    """A change that may have been made, or may still be: a later `read` tells, once a majority answers."""


class Register:
    """Register, as one agent uses it. `random` draws names that differ in each life of the agent.

    `patience` is the time in seconds after which a change without a majority is given up.
    """

    def __init__(
        self, name: str, electorate: Electorate, quorum: Quorum, random: Random, patience: float = _PATIENCE
    ) -> None:
        self._electorate, self._quorum, self._random, self._patience = electorate, quorum, random, patience
        self._proposer = f"{name}/{drawn(random)}"
        self._seen = NO_BALLOT
        """Newest ballot that this agent knows of."""
        self._changing = asyncio.Lock()

    async def read(self) -> Decision:
        """Return the newest decision. Raises NoMajority.

        What a majority has accepted in one and the same ballot was decided, and nothing newer before it was asked. So a
        thousand agents that read at their start write nothing, and hinder nobody. Otherwise a change is under way or
        was left halfway: a ballot finds out what comes of it.
        """
        questions = dict.fromkeys(self._electorate.voters, Look())
        answers = await self._quorum.ask(questions, self._electorate.majority, sights_of_most)
        if len(alike := sights_of_most(answers)) >= self._electorate.majority:
            return alike[0].decision
        if len(agreeing(answers)) < self._electorate.majority:
            raise self._failure(Proposal(""), answers)
        return await self.change(lambda value: value)

    async def change(self, function: Change) -> Decision:
        """Replace the value by the function of it, and return the decision that has it.

        The function is called once for each ballot; a value that it leaves as it is makes no new version. Raises what
        it raises, ValueTooLarge and NoMajority: nothing was changed; OutcomeUnknown. Of a change that is cancelled is
        not known whether it was made.
        """
        async with self._changing:
            loop = asyncio.get_running_loop()
            deadline, proposal = loop.time() + self._patience, Proposal(drawn(self._random))
            for attempt in itertools.count():
                decision, proposal, answers = await self._ballot(proposal, function)
                if decision is not None:
                    return decision
                longest = min(_LONGEST_BREAK, _FIRST_BREAK * 2**attempt)
                if loop.time() + longest >= deadline:
                    break
                await asyncio.sleep(self._random.uniform(0, longest))
            raise self._failure(proposal, answers)

    async def _ballot(
        self, proposal: Proposal, function: Change
    ) -> tuple[Decision | None, Proposal, Mapping[str, Answer]]:
        """Return the decision of one ballot, None where it has none; the proposal after it, and the voters' answers."""
        ballot = self._seen = next_ballot([self._seen], self._proposer)
        answers = await self._ask({name: Prepare(ballot) for name in self._electorate.voters})
        promises = promises_in(answers)
        if len(promises) < self._electorate.majority:
            return None, proposal, answers
        try:
            step = proposal.decide(promises, function)
        except Overtaken:
            raise OutcomeUnknown(f"{_UNKNOWN}: others made many changes meanwhile") from None
        if not step.is_decided:
            proposal = proposal.sent(step.decision)
            # Only those whose promises count: a promise of a journal that was lost since is none.
            asked: dict[str, Question] = {
                name: Accept(ballot, promise.life, step.decision) for name, promise in promises.items()
            }
            accepted = await self._ask(asked)
            if len(agreeing(accepted)) < self._electorate.majority:
                return None, proposal, {**answers, **accepted}
        if step.error is not None:
            raise step.error
        return step.decision, proposal, answers

    async def _ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answer]:
        answers = await self._quorum.ask(questions, self._electorate.majority)
        newer = [answer.promised for answer in answers.values() if isinstance(answer, Refusal)]
        self._seen = max(self._seen, *newer) if newer else self._seen
        return answers

    def _failure(self, proposal: Proposal, answers: Mapping[str, Answer]) -> NoMajority:
        silent = tuple(name for name, answer in answers.items() if isinstance(answer, Silence))
        voters, majority = len(self._electorate.voters), self._electorate.majority
        why = "; ".join(_trouble(name, answer) for name, answer in answers.items() if _trouble(name, answer))
        kind, begin = (NoMajority, "nothing was decided") if proposal.since is None else (OutcomeUnknown, _UNKNOWN)
        return kind(f"{begin}: {majority} of {voters} agents must agree: {why or 'try again'}", silent)


_UNKNOWN = "whether it was decided is not known, ask again"


def _trouble(name: str, answer: Answer) -> str:
    match answer:
        case Silence(why):
            return f"{name}: {why}"
        case Refusal(promised):
            return f"{name} is asked by {promised.proposer.partition('/')[0]} at the same time: try again"
        case Abstention():
            return f"{name} is new, and waits for the others"
    return ""


def drawn(random: Random) -> str:
    """Return a name that nobody else draws."""
    return f"{random.getrandbits(64):016x}"
