"""Questions to all voters at once, until enough of them have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from tfscale.agent.consensus.ballot import Ballot
from tfscale.agent.consensus.votes import (
    NO_ANSWER,
    Acceptance,
    Answer,
    Introduction,
    Promise,
    Question,
    Sight,
    Silence,
)
from tfscale.core.errors import TfscaleError

_PATIENCE = 2.0
"""Seconds for the answer of a voter, whose disk takes milliseconds, under load up to a second."""


def agreeing(answers: Mapping[str, Answer]) -> dict[str, Promise | Sight | Acceptance | Introduction]:
    """Return the answers of the voters that agree to what they were asked."""
    return {
        name: each for name, each in answers.items() if isinstance(each, Promise | Sight | Acceptance | Introduction)
    }


def sights_of_most(answers: Mapping[str, Answer]) -> list[Sight]:
    """Return the sights of the ballot that most voters have accepted last."""
    by_ballot: dict[Ballot, list[Sight]] = {}
    for answer in answers.values():
        if isinstance(answer, Sight):
            by_ballot.setdefault(answer.accepted, []).append(answer)
    return max(by_ballot.values(), key=len, default=[])


def promises_in(answers: Mapping[str, Answer]) -> dict[str, Promise]:
    """Return the promises among the answers."""
    return {name: each for name, each in answers.items() if isinstance(each, Promise)}


class VoterLink(Protocol):
    """Voter of this agent, or the way to another agent's."""

    async def ask(self, question: Question, /) -> Answer:
        """Return the voter's answer, Silence where there is none. Raises TfscaleError where it cannot vote."""


class Quorum:
    """Voters by name, and the calls to them that are under way."""

    def __init__(self, links: Mapping[str, VoterLink], patience: float = _PATIENCE) -> None:
        self._links, self._patience = links, patience
        self._asking: dict[asyncio.Task[None], None] = {}
        """Calls under way, in their order."""

    async def ask(
        self,
        questions: Mapping[str, Question],
        needed: int,
        counted: Callable[[Mapping[str, Answer]], Sized] = agreeing,
    ) -> dict[str, Answer]:
        """Return the answers once `needed` of them are counted, or so many no longer can be.

        By default those of the voters count that agree to what they are asked. Who has no answer until then has none in
        the result, but is asked on: its disk may need what the others have.
        """
        answers: dict[str, Answer] = {}
        arrived = self._begin(questions)
        while (count := len(counted(answers))) < needed <= count + len(questions) - len(answers):
            answers |= [await arrived.get()]
        return answers

    async def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """Return the answer of each voter, Silence where there is none in time."""
        arrived = self._begin(questions)
        return dict([await arrived.get() for _ in questions])

    def _begin(self, questions: Mapping[str, Question]) -> asyncio.Queue[tuple[str, Answer]]:
        """Ask all at once; return the queue to which their answers come."""
        arrived: asyncio.Queue[tuple[str, Answer]] = asyncio.Queue()
        for name, question in questions.items():
            task = asyncio.create_task(self._ask(name, question, arrived))
            self._asking[task] = None
            task.add_done_callback(self._asking.pop)
        return arrived

    async def _ask(self, name: str, question: Question, arrived: asyncio.Queue[tuple[str, Answer]]) -> None:
        answer: Answer = NO_ANSWER
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._links[name].ask(question)
        except TimeoutError:
            pass
        except TfscaleError as error:
            answer = Silence(str(error))
        finally:
            arrived.put_nowait((name, answer))

    async def close(self) -> None:
        """End the calls that are under way."""
        for task in tuple(self._asking):
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
