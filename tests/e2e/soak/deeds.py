"""Random deeds of a soak, by its seed: what is done to whom, when, and for how long."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WEIGHTS = {
    "kill the agent of": 4,
    "kill the shim of": 2,
    "kill the task": 4,
    "kill agent and shim of": 2,
    "lose the host of": 2,
    "halt the agent of": 3,
    "halt the shim of": 1,
    "halt the task": 1,
    "cut off": 3,
    "part": 2,
    "slow and lossy": 2,
    "upgrade the agent of": 3,
    "end the agent of": 2,
    "restart all": 2,
    "restart": 3,
    "restart without": 3,
    "stop, then start": 2,
    "uncordon": 2,
    "late console": 2,
}
"""How often each is done."""
_OF_TASKS = ("kill the shim of", "kill the task", "halt the shim of", "halt the task", "restart")
"""Deeds to a task, wherever it sits; the others are to a seat."""
_OF_ALL = ("restart all", "stop, then start", "late console")
_OF_LINKS = ("cut off", "part", "slow and lossy", "lose the host of")
"""Deeds of which one is done at a time."""
_ENDS_AGENT = (
    "kill the agent of", "kill agent and shim of", "lose the host of", "upgrade the agent of", "end the agent of",
)  # fmt: skip
_LONGEST = {"halt": 25.0, "cut": 30.0, "part": 30.0, "slow": 20.0, "lose": 20.0, "stop,": 6.0, "late": 6.0}
"""Seconds that a deed lasts at most, by its first word; the others are over at once."""
_PAUSE = 5.0
"""Mean seconds from one deed to the next."""


@dataclass(frozen=True)
class Deed:
    """One deed of a round."""

    at: float
    """Seconds after the round has begun."""
    name: str
    subject: str
    """Task, or seat; of `part` two seats with a space, which do not reach the other ones. May be empty."""
    lasts: float = 0.0
    """Seconds."""

    def __str__(self) -> str:
        return f"{self.name} {self.subject}".strip() + (f" for {self.lasts:.0f} s" if self.lasts else "")


def steady_seat(seed: int, seats: Sequence[str]) -> str:
    """Return the seat whose agent is never ended, so that a leak has the whole soak to grow."""
    return random.Random(f"{seed} steady").choice(seats)


def deeds(seed: int, number: int, tasks: Sequence[str], seats: Sequence[str]) -> Iterator[Deed]:
    """Yield the deeds of a round, in their order; the same ones for the same seed, round, tasks and seats."""
    chance = random.Random(f"{seed} {number}")
    length, steady = chance.uniform(20.0, 60.0), steady_seat(seed, seats)
    busy: dict[str, float] = {}
    at = 0.0
    while (at := at + chance.expovariate(1 / _PAUSE)) < length:
        name = chance.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        deed = Deed(at, name, _subject(chance, name, tasks, seats), _lasts(chance, name))
        of = "links" if name in _OF_LINKS else str(deed.subject)
        if busy.get(of, 0.0) > at or (name in _ENDS_AGENT and deed.subject == steady):
            continue
        if deed.lasts:
            busy[of] = at + deed.lasts
        yield deed


def _subject(chance: random.Random, name: str, tasks: Sequence[str], seats: Sequence[str]) -> str:
    if name in _OF_ALL:
        return ""
    if name == "part":
        return " ".join(chance.sample(seats, 2))
    return chance.choice(tasks if name in _OF_TASKS else seats)


def _lasts(chance: random.Random, name: str) -> float:
    longest = _LONGEST.get(name.split()[0], 0.0)
    return chance.uniform(0.5, longest) if longest else 0.0
