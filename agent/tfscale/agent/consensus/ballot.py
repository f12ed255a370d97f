"""Ballot: one attempt of one proposer to change the register. Of two ballots one is always the newer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Ballot:
    """Ballot; a higher number is newer, and of equal numbers the proposer's name decides."""

    number: int
    proposer: str
    """Name that differs in each life of a process: two ballots with one name and number would be one for the voters."""


NO_BALLOT = Ballot(0, "")
"""Ballot older than all others."""


def next_ballot(seen: Iterable[Ballot], proposer: str) -> Ballot:
    """Return the proposer's first ballot that is newer than all that were seen."""
    return Ballot(max(seen, default=NO_BALLOT).number + 1, proposer)
