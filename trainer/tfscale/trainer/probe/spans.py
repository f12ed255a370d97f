"""What the hooks record: spans of a training step, each of a site."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What happens between a span's two stamps."""

    INPUT = "input"
    """The next batch was asked for -> it was ready."""
    REDUCE = "reduce"
    """The tensors of a cross-replica reduction were ready -> they were reduced."""
    RUN = "run"
    """`Strategy.run` began -> all its side effects, the variables' updates among them, were done."""


@dataclass(slots=True, eq=False)
class Site:
    """A place in the program that records spans, fixed once its graph is traced."""

    number: int
    kind: Kind
    bytes: int = 0
    """Of the tensors handed to the reduction by one replica: elements x dtype."""
    in_run: bool = False
    """Whether a reduction lies inside `Strategy.run`."""
    eager: bool = False
    """Whether Python passes here at each step, and not once a trace."""
    looped: bool = False
    """Whether the site lies in a loop inside the graph, whose iterations may overlap."""
    beside: bool = False
    """Whether no update of a variable waits for this reduction (a metric's, for example)."""


class Span(NamedTuple):
    """One passage through a site. Times are Unix seconds."""

    site: Site
    begin: float
    end: float
    examples: float = 0.0
    """Of an input span: examples in this worker's part of the batch; 0 when they could not be counted."""


class Sites:
    """All sites of this process. Graphs are traced in several threads (one a replica)."""

    def __init__(self) -> None:
        self._sites: list[Site] = []
        self._eager: dict[tuple[Kind, int, bool], Site] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def __getitem__(self, number: int) -> Site:
        return self._sites[number]

    def traced(self, kind: Kind, size: int = 0, in_run: bool = False, looped: bool = False) -> Site:
        """A new site of a graph."""
        return self._add(kind, size, in_run, eager=False, looped=looped)

    def _add(self, kind: Kind, size: int, in_run: bool, *, eager: bool, looped: bool = False) -> Site:
        with self._lock:
            site = Site(next(self._numbers), kind, size, in_run, eager, looped, beside=not in_run)
            self._sites.append(site)
            return site

    def eager(self, kind: Kind, size: int = 0, in_run: bool = False) -> Site:
        """The site of eager code: one for each combination, as such code passes without a trace."""
        site = self._eager.get((kind, size, in_run))
        if site is None:
            site = self._eager[kind, size, in_run] = self._add(kind, size, in_run, eager=True)
        return site
