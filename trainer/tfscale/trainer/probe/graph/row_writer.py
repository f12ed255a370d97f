"""Writer of rows: the stamps of a graph, in as few rows as possible."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.trainer.probe.rows.row_buffer import RowBuffer
from tfscale.trainer.probe.rows.row_kinds import Member, RowKinds
from tfscale.trainer.probe.rows.row_layout import WIDTH
from tfscale.trainer.probe.rows.spans import Counter, Kind, Site


class StampedSpan(NamedTuple):
    """Span of a graph: its stamps, and the numbers to write with them."""

    site: Site
    values: list[tf.Operation | tf.Tensor]


class RowWriter:
    """Writer that keeps the spans of each graph that is being traced until the graph is complete."""

    def __init__(self) -> None:
        self.kinds = RowKinds()
        self._unwritten: dict[int, list[StampedSpan]] = {}
        """Spans whose stamps are not written yet, by the id of the graph that is being traced."""

    def write_later(self, site: Site, *values: tf.Operation | tf.Tensor) -> None:
        """Have a span written when its graph has been traced."""
        self._unwritten.setdefault(id(values[0].graph), []).append(StampedSpan(site, list(values)))

    def has_input(self, graph: Any) -> bool:
        """Return whether this graph, during its trace, or a graph around it has requested a batch so far."""
        while graph is not None:
            if any(span.site.kind is Kind.INPUT for span in self._unwritten.get(id(graph), [])):
                return True
            graph = getattr(graph, "outer_graph", None)
        return False

    def write(self, graph: Any, row_buffer: Callable[[], RowBuffer]) -> None:
        """Write the spans of a traced graph.

        A reduction that overlaps the updates may wait for other workers long after the run has ended, so it has a row
        of its own. `row_buffer` returns the place of the rows; it is made only for a graph with spans.
        """
        stamped = _one_run(self._unwritten.pop(id(graph), []))
        _mark_unrolled(stamped)
        for overlaps in (False, True):
            together = [span for span in stamped if span.site.overlaps_updates is overlaps]
            while together:
                self._write_row(row_buffer(), together)

    def _write_row(self, buffer: RowBuffer, stamped: list[StampedSpan]) -> None:
        """Write as many spans as fit into one row, and remove them from the list."""
        members: list[Member] = []
        values: list[tf.Operation | tf.Tensor] = []
        while stamped and len(values) + len(stamped[0].values) < WIDTH:
            site, numbers = stamped.pop(0)
            members.append(Member(site, len(numbers)))
            values += numbers
        buffer.write(self.kinds.new_kind(members), values)


def _one_run(stamped: list[StampedSpan]) -> list[StampedSpan]:
    """Merge the runs of different optimizers that follow one another in a graph: the merged run ends with the last.

    An optimizer that runs again begins the next step.
    """
    merged: list[StampedSpan] = []
    seen: set[Counter | None] = set()
    for run, following in pairwise(span for span in stamped if span.site.standalone_optimizer):
        seen.add(run.site.counter)
        if following.site.counter in seen:
            seen = set()
        else:
            merged.append(run)
    return [span for span in stamped if not any(span is each for each in merged)]


def _mark_unrolled(stamped: list[StampedSpan]) -> None:
    """Mark the spans of a loop that is unrolled in a graph as those of a loop: its batches may be some ahead."""
    kinds = Counted(span.site.kind for span in stamped)
    if kinds[Kind.RUN] == kinds[Kind.INPUT] > 1:
        for span in stamped:
            span.site.looped = True
