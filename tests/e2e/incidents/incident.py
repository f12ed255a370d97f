"""Declarations of incidents: what is done to which cluster, and what must and must never be said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from incidents.cluster import Cluster

WELL = r"^healthy: "
LIMITS = r"bound|bfloat16|CPUs are full|(?<!no )straggl|slower than"
"""Words about steps; of a cluster that makes none they are never true."""
STILL = rf"{WELL}|steps/s|{LIMITS}"
"""Words that must not be said while nothing is trained."""
DEAD = r"has died|was killed|peer was gone|SIGKILL"
"""Words about a death; of a task that lives they are never true."""
RAW = r"[EFWI]0000 00:00|\d\.?\d*e\+\d\d|how it does not say"
"""Words that no operator can read: they must never be said, of any incident."""
ALONE = (("worker", 3),)
SERVED = (("chief", 1), ("worker", 2), ("ps", 1))


@dataclass(frozen=True)
class Setup:
    """The cluster to which something happens. Incidents with the same one may follow each other in it."""

    program: str = "fit"
    roles: tuple[tuple[str, int], ...] = ALONE
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of all tasks."""
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables of single tasks, by their names."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Kinds of the control groups in which single tasks and their agents run."""
    absent: tuple[str, ...] = ()
    """Tasks that nobody starts."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Hosts of single tasks in the cluster file, where they are not what they should be."""
    indexes: Mapping[str, int] = field(default_factory=dict)
    """Indexes of single tasks, where they are not what they should be."""
    before: Callable[[Cluster], None] | None = None
    """Deed before any task is started."""
    policy: str = ""
    """Policy of recovery; empty for none."""
    is_heard: bool = True
    """False where no console runs beside it."""
    starts: bool = True
    """False where it never trains: what is said counts from its start."""


FAST = Setup()
SLOW = Setup(variables={"STEP": "1.0"})
SERVERS = Setup(program="servers", roles=SERVED)


@dataclass(frozen=True)
class Incident:
    """One incident. All patterns are searched without regard to case."""

    name: str
    does: str
    """Sentence about what is done, for the table."""
    says: Mapping[float, str]
    """Pattern of the sentence on top, so many seconds after the beginning."""
    setup: Setup = FAST
    begin: Callable[[Cluster], None] = lambda _: None
    end: Callable[[Cluster], None] | None = None
    lasts: float = 31.0
    """Seconds from its beginning to its end, or as long as it is listened to if it has none."""
    afterwards: Mapping[float, str] = field(default_factory=dict)
    """Pattern of the sentence on top, so many seconds after its end."""
    while_it_lasts: str = ""
    """Pattern of what must not be said from the sixth second on until it ends."""
    never: str = ""
    """Pattern of what must not be said at all: on top, as advice or as an event."""
    report: str = ""
    """Pattern of a sentence in the report."""
    recovers: bool = False
    """True where the cluster is as it was before."""
    quick: bool = False
    """True for those that a test runs."""
