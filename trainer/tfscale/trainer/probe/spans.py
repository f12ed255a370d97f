"""What the hooks record: spans of a training step, each of a site."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    """What happens between a span's two stamps."""

    INPUT = "input"
    """The next batch was asked for -> it was ready."""
    GRADIENT = "gradient"
    """Gradients were computed outside a run; the two stamps are one."""
    READY = "ready"
    """One replica's gradients were ready; the two stamps are one."""
    REDUCE = "reduce"
    """The tensors of a reduction were ready -> they were reduced."""
    RUN = "run"
    """`Strategy.run`, or an optimizer outside of it, began -> the variables' updates were done."""
    EXCHANGE = "exchange"
    """A function began on a worker -> the variables were there that it fetched from parameter servers."""
    TRAFFIC = "traffic"
    """Bytes to or from one parameter server that only the run itself knows; the two stamps are one."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is distributed. `strategy` is None without any, `collective` where nothing is reduced."""

    strategy: str | None = None
    replicas: int = 1
    local_replicas: int = 1
    collective: str | None = None


@dataclass(slots=True, eq=False)
class Counter:
    """An optimizer's iterations: `base` before its first step that was seen, and the steps since."""

    base: int
    count: int = 0


@dataclass(slots=True, eq=False)
class Site:
    """A place in the program that records spans, fixed once its graph is traced."""

    number: int
    kind: Kind
    eager: bool = False
    """Whether Python passes here at each step, and not once a trace."""
    looped: bool = False
    """Whether the site lies in a loop inside the graph, whose iterations may overlap."""
    bytes: int = 0
    """Of a reduction: what one replica hands over, elements x dtype, as far as the shapes are fixed."""
    examples: int = 0
    """Of INPUT: in this worker's part of a batch, as far as its size is fixed."""
    in_run: bool = False
    """Whether a reduction lies inside a run."""
    beside: bool = False
    """Whether no update of a variable waits for this reduction (a metric's, for example)."""
    collective: bool = False
    """Whether replicas meet in this reduction; with one replica nothing is reduced."""
    local: bool = False
    """Whether all of these replicas are in this process, so that nothing goes over a network."""
    replica: int = 0
    """Of READY: which one, counted within this process."""
    of: Site | None = None
    """Of READY: the reduction, or the run that reduces nothing."""
    lone: bool = False
    """Whether a run is an optimizer's, outside of `Strategy.run`."""
    trains: bool = False
    """Whether a run computes or applies gradients."""
    unsplit: bool = False
    """Whether nothing is stamped inside of a run: XLA compiled it, or the reductions of its strategy have no hooks."""
    program: Program = Program()
    """Of a run."""
    counter: Counter | None = None
    """Of a run: its optimizer's."""


class Span(NamedTuple):
    """One passage through a site. Times are Unix seconds."""

    site: Site
    begin: float
    end: float
    amount: float = 0.0
    """Beyond what is fixed with the site: of INPUT examples, of REDUCE bytes."""


class Sites:
    """All sites of this process. Graphs are traced in several threads (one a replica)."""

    def __init__(self) -> None:
        self.all: list[Site] = []
        """By number."""
        self._eager: dict[Hashable, Site] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def traced(self, kind: Kind, **traits: Any) -> Site:
        """A new site of a graph."""
        with self._lock:
            site = Site(next(self._numbers), kind, **traits)
            self.all.append(site)
            return site

    def eager(self, kind: Kind, key: Hashable = None, **traits: Any) -> Site:
        """The site of eager code: one for each `key` and traits, as such code passes without a trace."""
        found = (kind, key, *traits.items())
        site = self._eager.get(found)
        if site is None:
            site = self._eager[found] = self.traced(kind, eager=True, **traits)
        return site
