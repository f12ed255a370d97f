"""Electorate: the agents that vote, one a host, by the cluster file alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.placement.placement import file_spec
from tfscale.core.text import listing

_MOST = 5
"""Voters at most: five outlive the loss of two, and each more makes every vote slower."""
_FEW = 3
"""Hosts of tasks below which spares vote, too."""


@dataclass(frozen=True)
class Electorate:
    """Voters by name, which is the address of the agent in the cluster file."""

    voters: tuple[str, ...]

    @property
    def majority(self) -> int:
        """Number of voters any two groups of which have one in common."""
        return len(self.voters) // 2 + 1

    @property
    def enough_to_learn(self) -> int:
        """Number of others from which a new voter learns all that was decided.

        One of them was in each majority, also in one that had this voter with its lost journal.
        """
        return len(self.voters) - self.majority + 1

    @property
    def why_neither_alone(self) -> str:
        """Reason why neither of two voters decides alone, and what to do; empty for any other number."""
        if len(self.voters) != 2:
            return ""
        hosts = listing([parse_address(voter).host for voter in self.voters])
        return (
            f"of two hosts ({hosts}) neither moves a task without the other, also not by hand, because it may be the "
            "one that is cut off: add a third one, as in [spares]"
        )

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits of the names: agents with different voters must not vote together."""
        return hashlib.sha256("\n".join(self.voters).encode()).hexdigest()[:8]


def electorate_of(spec: ClusterSpec) -> Electorate:
    """Return the voters of a cluster: the first agent of each host, five hosts at most, and an odd number from three.

    Spares vote only where the tasks have fewer than three hosts. An even number would need a larger majority, and
    outlive no more losses. Of two hosts neither decides alone.
    """
    written = file_spec(spec)
    first: dict[str, Address] = {}
    for agent in written.agents.values():
        first.setdefault(agent.host, agent)
    for agent in written.spares:
        if len(first) < _FEW:
            first.setdefault(agent.host, agent)
    number = min(len(first), _MOST)
    return Electorate(tuple(map(str, first.values()))[: number - (number > _FEW and number % 2 == 0)])
