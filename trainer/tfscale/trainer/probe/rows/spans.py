"""Spans of a training step, which hooks record, and sites: their places in the program."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    """Kind of span: what happens between its two stamps."""

    INPUT = "input"
    """The next batch was asked for -> it was ready."""
    GRADIENT = "gradient"
    """Gradients were computed outside a run; both stamps are equal."""
    READY = "ready"
    """One replica's gradients were ready; both stamps are equal."""
    REDUCE = "reduce"
    """The tensors of a reduction were ready -> they were reduced."""
    RUN = "run"
    """`Strategy.run`, or an optimizer outside of it, began -> the variables' updates were done."""
    EXCHANGE = "exchange"
    """A function began on a worker -> its variables from parameter servers have arrived."""
    TRAFFIC = "traffic"
    """Bytes to or from one parameter server, if only the run knows their number; both stamps are equal."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of a program. `strategy` is None without any, `collective` where nothing is reduced."""

    strategy: str | None = None
    replicas: int = 1
    local_replicas: int = 1
    collective: str | None = None


@dataclass(slots=True, eq=False)
class Counter:
    """Iterations of an optimizer: `base` before its first step that was measured, and the steps since."""

    base: int
    count: int = 0


@dataclass(slots=True, eq=False)
class Site:
    """Place in the program that records spans, fixed once its graph is traced."""

    number: int
    kind: Kind
    eager: bool = False
    """True if Python passes here in each step, and not once a trace."""
    looped: bool = False
    """True if the site lies in a loop inside the graph, whose iterations may overlap."""
    bytes: int = 0
    """Bytes that one replica hands to a reduction, elements x dtype, of fixed shapes."""
    examples: int = 0
    """Examples in this worker's part of a batch of an INPUT, of fixed size."""
    gathered: int = 0
    """All-gathered part of a reduction's `bytes`: rows of sparse gradients, or the program's own gathers."""
    gathers_more: bool = False
    """True if the bytes of a reduction beyond its fixed bytes are all-gathered."""
    dense_bytes: int = 0
    """Bytes that the sparse gradients of a reduction would have as dense tensors."""
    wire_type: str = ""
    """Type of most bytes of a reduction, such as `bfloat16`."""
    in_run: bool = False
    """True if a reduction lies inside a run."""
    overlaps_updates: bool = False
    """True if no update of a variable waits for this reduction (a metric's, for example)."""
    collective: bool = False
    """True if replicas exchange data in this reduction; with one replica nothing is reduced."""
    local: bool = False
    """True if all replicas are in this process, so that nothing goes over a network."""
    replica: int = 0
    """Replica of a READY, counted within this process."""
    reduction: Site | None = None
    """For a READY, its reduction, or its run if nothing is reduced."""
    standalone_optimizer: bool = False
    """True if a run is an optimizer outside of `Strategy.run`."""
    begins: bool = False
    """True if all computing of a run is between its two stamps.

    In a graph that requests the batch itself both stamps are equal, and an optimizer in eager code applies what was
    computed before.
    """
    trains: bool = False
    """True if a run computes or applies gradients."""
    applies: bool = False
    """True if an optimizer applies gradients in a run."""
    updates: int = 1
    """Updates of the variables that a run makes: a loop inside of it makes several."""
    asks: bool = False
    """True if a run requests its batches inside, unseen."""
    micro_batches: int = 1
    """Number of micro-batches whose gradients a loop inside of a run computes in turn."""
    unsplit: bool = False
    """True if nothing is stamped inside of a run: XLA compiled it, or its strategy's reductions have no hooks."""
    distribution: Distribution = Distribution()
    """Distribution of a run's program."""
    counter: Counter | None = None
    """Iterations of the optimizer of a run."""


class Span(NamedTuple):
    """One passage through a site. Times are Unix seconds."""

    site: Site
    begin: float
    end: float
    amount: float = 0.0
    """Examples of an INPUT, or bytes of a REDUCE, beyond the fixed number of the site."""


class Sites:
    """Sites of this process. Graphs are traced in several threads, one for each replica."""

    def __init__(self) -> None:
        self.all: list[Site] = []
        """Sites in the order of their numbers."""
        self._eager: dict[Hashable, Site] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def traced(self, kind: Kind, **traits: Any) -> Site:
        """Return a new site of a graph."""
        with self._lock:
            site = Site(next(self._numbers), kind, **traits)
            self.all.append(site)
            return site

    def eager(self, kind: Kind, key: Hashable = None, **traits: Any) -> Site:
        """Return the site of eager code, one for each `key` and traits: each call passes the code anew."""
        identity = (kind, key, *traits.items())
        site = self._eager.get(identity)
        if site is None:
            site = self._eager[identity] = self.traced(kind, eager=True, **traits)
        return site
