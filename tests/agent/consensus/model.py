"""Model of the register, all states of which are visited: real voters and proposals on a network that does anything.

A question or an answer that was sent once stays in the network: it may arrive at any time, again and again, or never,
so a process that ends, or a loss, needs no step of its own. The first questions of all ballots are sent in the
beginning, for the same reason. A disk may lose its journal, and then no other one does until its voter votes again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product
from typing import Any, TypeVar

from tfscale.agent.consensus.ballot import Ballot
from tfscale.agent.consensus.decision import Decision
from tfscale.agent.consensus.joining import founders_among
from tfscale.agent.consensus.proposal import Change, Proposal, newest_promise
from tfscale.agent.consensus.voter import Voter, VoterEntry
from tfscale.agent.consensus.votes import (
    Accept,
    Acceptance,
    Answer,
    Founder,
    Introduce,
    Introduction,
    Prepare,
    Promise,
    Question,
)
from tfscale.core.cluster.placement.electorate import Electorate

T = TypeVar("T")
NAMES = ("a", "b", "c")
ELECTORATE = Electorate(NAMES)
STOP = b"stop"
CHANGES: Mapping[str, Change] = {
    "run": lambda value: value if value == STOP else value + b"r",
    "stop": lambda _: STOP,
}
"""Function of each proposer: nobody runs what was stopped."""


class Memory:
    """Journal of a voter without a disk."""

    def __init__(self, entry: VoterEntry) -> None:
        self.entry = entry

    async def put(self, entry: VoterEntry) -> None:
        self.entry = entry


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def answered(entry: VoterEntry, question: Question) -> tuple[VoterEntry, VoterEntry, Answer]:
    """Return what a real voter has in memory and on disk once it has answered, and the answer."""
    memory = Memory(entry)
    answer = done(Voter(memory).ask(question))
    return memory.entry, memory.entry, answer


@dataclass(frozen=True)
class Rules:
    """Rules of the model, each of which a test replaces by a wrong one."""

    answered: Callable[[VoterEntry, Question], tuple[VoterEntry, VoterEntry, Answer]] = answered
    is_empty_when_lost: bool = False
    """True for a voter that votes at once with a new journal."""
    is_silence_news: bool = False
    """True for a voter that takes those that do not answer for new."""
    asks_all: bool = False
    """True for a proposer that asks all voters for an acceptance, not only those whose promises count."""


@dataclass(frozen=True)
class Proposer:
    """Proposer, and the ballot in which it has asked for acceptances."""

    proposal: Proposal
    number: int = 0
    """Number of the ballot; 0 before the first."""
    asked: tuple[tuple[str, Accept], ...] = ()
    """Voters that are to accept a decision."""
    told: Decision | None = None
    """Decision that its caller was told."""


@dataclass(frozen=True)
class Message:
    """Question to a voter; with an answer, that."""

    asker: str
    voter: str
    question: Question
    answer: Answer | None = None


State = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]
"""Voters' memories, their disks, proposers, messages as bits, and losses of a disk that are left; all numbered."""


_QUESTIONS, _ACCEPTANCES = "questions", "acceptances"


class Violation(AssertionError):
    """A state that must not be."""


@dataclass
class Model:
    """Model with the numbers of each proposer's ballots, those of a new voter's, and a number of losses of a disk."""

    ballots: Mapping[str, tuple[int, ...]]
    learning: tuple[int, ...] = ()
    losses: int = 0
    is_founded: bool = True
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._kept: dict[tuple[int, int], tuple[int, int, int | None]] = {}
        self._next: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Next proposers, and the messages that each sends, by a proposer and the messages that concern it."""
        self._right: set[tuple[tuple[int, ...], int]] = set()
        """Proposers and acceptances that were checked."""
        self._masks: dict[str, int] = defaultdict(int)
        """Numbers of messages, as bits: of all questions, of all acceptances, and by asker of all answers."""

    def states(self) -> int:
        """Visit all states; return their number. Raises Violation."""
        start = self._start()
        seen, edge = {start}, [start]
        while edge:
            following = []
            for state in edge:
                for each in self._steps(state):
                    if each not in seen:
                        seen.add(each)
                        following.append(each)
                        self._check(each)
            edge = following
        return len(seen)

    def _start(self) -> State:
        founders = tuple(Founder(name, f"{name}0") for name in NAMES)
        entry = VoterEntry("", self.is_founded, founders if self.is_founded else ())
        voters = tuple(self._number(replace(entry, life=f"{name}0")) for name in NAMES)
        proposers = tuple(self._number(Proposer(Proposal(change))) for change in CHANGES)
        first = (
            Message(change, name, Prepare(Ballot(number, change)))
            for change, numbers in self.ballots.items()
            for number in numbers
            for name in NAMES
        )
        bits = self._sent(0, *first)
        for name in () if self.is_founded else NAMES:
            bits |= self._asked_of_others(name, f"{name}0")
        return voters, voters, proposers, bits, self.losses

    def _asked_of_others(self, own: str, life: str) -> int:
        """Return all questions of a new voter."""
        first = () if self.is_founded else (Introduce(),)  # a founder's answer would be the same in all states
        questions = (*first, *(Prepare(Ballot(number, life)) for number in self.learning))
        return self._sent(0, *(Message(life, name, each) for name in NAMES if name != own for each in questions))

    def _number(self, thing: Any) -> int:
        if (number := self._numbers.get(thing)) is None:
            number = self._numbers[thing] = len(self._objects)
            self._objects.append(thing)
            if isinstance(thing, Message):
                self._masks[_QUESTIONS if thing.answer is None else thing.asker] |= 1 << number
                if thing.answer == Acceptance():
                    self._masks[_ACCEPTANCES] |= 1 << number
        return number

    def _messages(self, bits: int) -> Iterator[tuple[int, Message]]:
        while bits:
            lowest = bits & -bits
            number = lowest.bit_length() - 1
            yield number, self._objects[number]
            bits ^= lowest

    def _sent(self, bits: int, *messages: Message) -> int:
        for message in messages:
            bits |= 1 << self._number(message)
        return bits

    def _steps(self, state: State) -> Iterator[State]:
        yield from self._deliveries(state)
        yield from self._proposals(state)
        yield from self._losses(state)
        yield from self._joins(state)

    def _deliveries(self, state: State) -> Iterator[State]:
        memories, disks, proposers, bits, losses = state
        for number, message in self._messages(bits & self._masks[_QUESTIONS]):
            place = NAMES.index(message.voter)
            memory, disk, answer = self._delivered(memories[place], number)
            heard = bits if answer is None else bits | 1 << answer
            if (memory, heard) != (memories[place], bits):
                yield _put(memories, place, memory), _put(disks, place, disk), proposers, heard, losses

    def _delivered(self, entry: int, number: int) -> tuple[int, int, int | None]:
        """Return the voter's memory, its disk and its answer, all numbered; a refusal changes nothing and is lost."""
        if (kept := self._kept.get((entry, number))) is None:
            message = self._objects[number]
            memory, disk, answer = self.rules.answered(self._objects[entry], message.question)
            is_heard = isinstance(answer, Promise | Acceptance | Introduction)
            reply = self._number(replace(message, answer=answer)) if is_heard else None
            kept = self._kept[entry, number] = self._number(memory), self._number(disk), reply
        return kept

    def _proposals(self, state: State) -> Iterator[State]:
        memories, disks, proposers, bits, losses = state
        for place, number in enumerate(proposers):
            proposer = self._objects[number]
            heard = bits & self._masks[proposer.proposal.change]
            if (found := self._next.get((number, heard))) is None:
                found = [(self._number(each), sent) for each, sent in self._proposed(proposer, heard)]
                self._next[number, heard] = found
            for each, sent in found:
                yield memories, disks, _put(proposers, place, each), bits | sent, losses

    def _proposed(self, proposer: Proposer, bits: int) -> Iterator[tuple[Proposer, int]]:
        """Yield what the proposer may do next, and what it sends: the second question of a ballot, or its end."""
        change = proposer.proposal.change
        if proposer.told is not None:
            return
        heard = {name for name, asked in proposer.asked if self._has_accepted(bits, change, name, asked)}
        if proposer.asked and len(heard) >= ELECTORATE.majority:
            yield replace(proposer, told=proposer.asked[0][1].decision), 0
        for number in self.ballots[change]:
            if number > proposer.number:
                ballot = Ballot(number, change)
                for promises in self._majorities(bits, change, ballot, NAMES, ELECTORATE.majority):
                    yield self._decided(proposer, promises, ballot)

    def _has_accepted(self, bits: int, change: str, name: str, asked: Accept) -> bool:
        number = self._numbers.get(Message(change, name, asked, Acceptance()))
        return number is not None and bool(bits >> number & 1)

    def _majorities(
        self, bits: int, asker: str, ballot: Ballot, names: tuple[str, ...], needed: int
    ) -> Iterator[dict[str, Promise]]:
        """Yield each choice of enough promises that have arrived."""
        found: dict[str, list[Promise]] = {}
        for _, message in self._messages(bits):
            if isinstance(message.answer, Promise) and message.asker == asker and message.question == Prepare(ballot):
                found.setdefault(message.voter, []).append(message.answer)
        for size in range(needed, len(names) + 1):
            for chosen in combinations([name for name in names if name in found], size):
                for promises in product(*(found[name] for name in chosen)):
                    yield dict(zip(chosen, promises, strict=True))

    def _decided(self, proposer: Proposer, promises: dict[str, Promise], ballot: Ballot) -> tuple[Proposer, int]:
        change = proposer.proposal.change
        step = proposer.proposal.decide(promises, CHANGES[change])
        if step.is_decided:
            return replace(proposer, told=step.decision), 0
        lives = {name: promise.life for name, promise in promises.items()}
        if self.rules.asks_all:
            lives = {name: f"{name}0" for name in NAMES} | lives
        asked = tuple((name, Accept(ballot, life, step.decision)) for name, life in lives.items())
        proposal = proposer.proposal.sent(step.decision)
        return Proposer(proposal, ballot.number, asked), self._sent(
            0, *(Message(change, name, question) for name, question in asked)
        )

    def _losses(self, state: State) -> Iterator[State]:
        memories, disks, proposers, bits, losses = state
        for place, name in enumerate(NAMES):
            if memories[place] != disks[place]:
                yield _put(memories, place, disks[place]), disks, proposers, bits, losses
            # The voters are alike in the beginning: the first to lose its journal may be the first one.
            is_its_turn = place == 0 or losses < self.losses
            if losses and is_its_turn and all(self._objects[number].is_voting for number in memories):
                life = f"{name}{losses}"
                empty = self._number(VoterEntry(life, self.rules.is_empty_when_lost))
                sent = bits | self._asked_of_others(name, life)
                yield _put(memories, place, empty), _put(disks, place, empty), proposers, sent, losses - 1

    def _joins(self, state: State) -> Iterator[State]:
        memories, disks, proposers, bits, losses = state
        for place, number in enumerate(memories):
            if self._objects[number].is_voting:
                continue
            life = self._objects[number].life
            for entry in self._joined(NAMES[place], self._objects[number], bits & self._masks[life]):
                joined = self._number(entry)
                yield _put(memories, place, joined), _put(disks, place, joined), proposers, bits, losses

    def _joined(self, own: str, entry: VoterEntry, bits: int) -> Iterator[VoterEntry]:
        """Yield what a new voter may become."""
        others = tuple(name for name in NAMES if name != own)
        for answers in self._introductions(bits, entry.life, others):
            founders = founders_among(Founder(own, entry.life), answers)
            if founders is not None:
                memory = Memory(entry)
                done(Voter(memory).found(founders))
                yield memory.entry
        for number in self.learning:
            ballot = Ballot(number, entry.life)
            for promises in self._majorities(bits, entry.life, ballot, others, ELECTORATE.enough_to_learn):
                memory = Memory(entry)
                done(Voter(memory).adopt(ballot, newest_promise(promises)))
                yield memory.entry

    def _introductions(self, bits: int, life: str, others: tuple[str, ...]) -> Iterator[dict[str, Answer]]:
        """Yield each choice of one introduction of each other voter that has arrived."""
        found: dict[str, list[Answer]] = {name: [] for name in others}
        for _, message in self._messages(bits):
            if isinstance(message.answer, Introduction) and message.asker == life:
                found[message.voter].append(message.answer)
        if self.rules.is_silence_news:
            found = {name: answers for name, answers in found.items() if answers}
        for answers in product(*found.values()):
            yield dict(zip(found, answers, strict=True))

    def _check(self, state: State) -> None:
        """Raise Violation where two decisions of one version were made, or what was told is not so."""
        _, _, proposers, bits, _ = state
        acceptances = bits & self._masks[_ACCEPTANCES]
        if (proposers, acceptances) in self._right:
            return
        self._right.add((proposers, acceptances))
        accepted: dict[tuple[Ballot, Decision], set[str]] = {}
        for _, message in self._messages(acceptances):
            asked = message.question
            assert isinstance(asked, Accept)
            accepted.setdefault((asked.ballot, asked.decision), set()).add(message.voter)
        decided = [each for (_, each), voters in accepted.items() if len(voters) >= ELECTORATE.majority]
        made = sorted(decided, key=lambda decision: decision.version)
        for former, later in pairwise(made):
            is_one = later.version > former.version or later == former
            if not is_one or later.changes[: former.version] != former.changes:
                raise Violation(f"{former} was made, and so was {later}")
            if former.value == STOP != later.value:
                raise Violation(f"what was stopped runs: {later}")
        for number in proposers:
            self._check_told(self._objects[number], made[-1] if made else Decision())

    def _check_told(self, proposer: Proposer, last: Decision) -> None:
        told, change = proposer.told, proposer.proposal.change
        if told is not None and (last.changes[: told.version] != told.changes):
            raise Violation(f"{told} was told, and {last} was made")
        if last.changes.count(change) != (told is not None and change in told.changes) and told is not None:
            raise Violation(f"{change} was told as {told}, and {last} was made")


def _put(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])
