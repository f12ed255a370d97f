"""Questions to a voter, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.agent.consensus.ballot import Ballot
from tfscale.agent.consensus.decision import Decision


@dataclass(frozen=True, slots=True)
class Prepare:
    """Question for a promise: to answer no ballot that is older than this one."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Accept:
    """Question for an acceptance of a decision, in a ballot that the voter has promised."""

    ballot: Ballot
    life: str
    """Life of the voter's journal, as its promise named it: a journal that began anew has promised nothing."""
    decision: Decision


@dataclass(frozen=True, slots=True)
class Look:
    """Question for the newest decision that a voter has accepted: it promises nothing, and writes nothing."""


@dataclass(frozen=True, slots=True)
class Introduce:
    """Question of a voter that is new: who the other one is, and whether it votes."""


Question = Prepare | Accept | Look | Introduce


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise of a voter, and the newest decision that it has accepted."""

    life: str
    accepted: Ballot
    """Ballot of `decision`; NO_BALLOT where nothing was accepted yet."""
    decision: Decision


@dataclass(frozen=True, slots=True)
class Sight:
    """Newest decision that a voter has accepted, and its ballot: NO_BALLOT where nothing was accepted yet."""

    accepted: Ballot
    decision: Decision


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Word of a voter that the decision is on its disk."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Word of a voter that it has promised a newer ballot."""

    promised: Ballot


@dataclass(frozen=True, slots=True)
class Abstention:
    """Word of a voter that it is new, and does not know yet what was decided."""


@dataclass(frozen=True, slots=True, order=True)
class Founder:
    """Voter that was new when all others were, and the life that its journal had."""

    name: str
    life: str


@dataclass(frozen=True, slots=True)
class Introduction:
    """Name, as it were, of a voter's journal."""

    life: str
    is_voting: bool
    founders: tuple[Founder, ...]
    """Voters that were new together when this one began; empty where it has learned what the others had."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Missing answer of a voter; never sent."""

    why: str


NO_ANSWER = Silence("does not answer: start its agent")
Answer = Promise | Sight | Acceptance | Refusal | Abstention | Introduction | Silence
