"""Run of a program while its graph is traced, or while it goes on eagerly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.trainer.probe.graph.structures import descendants, ops_in, updates_fed_by, variable_updates
from tfscale.trainer.probe.rows.spans import Counter, Site


class Reduction(NamedTuple):
    """Reduction in a graph: its results, and the stamp of its end.

    One replica reduces nothing: under a condition (`tf.cond`) its results may be gradients of the graph around it.
    """

    site: Site
    results: list[tf.Tensor]
    stamp: tf.Operation

    @property
    def ops(self) -> set[tf.Operation]:
        """Ops from which its graph has the results, once the graph uses them."""
        return ops_in(self.stamp.graph, self.results)


@dataclass
class TracedRun:
    """Observations inside one run, while it was traced or while it went on eagerly."""

    trains: bool = False
    applies: bool = False
    loop: Any = None
    """Graph of the loop inside of the run in which gradients are computed; None without one."""
    unsplit: bool = False
    counter: Counter | None = None
    begun: list[tf.Operation] = field(default_factory=list)
    """Stamp of its begin in a graph that asks for no batch itself."""
    reductions: list[Reduction] = field(default_factory=list)
    gradients: dict[int, list[tf.Tensor]] = field(default_factory=dict)
    """Gradients of each local replica."""
    variables: list[tuple[str, ...]] = field(default_factory=list)
    """Names of the variables that these are of, for each call that has computed some."""


def changes_variables(run: TracedRun) -> bool:
    """Return whether a run changes variables by the gradients that it computes: with an optimizer, or by hand."""
    return run.applies or any(updates_fed_by({tensor.op for tensor in tensors}) for tensors in run.gradients.values())


def reduced_updates(reductions: list[Reduction], added: list[tf.Operation]) -> list[tf.Operation]:
    """Return the variable updates among a run's ops that depend on a reduction; all updates if none does.

    Reductions that feed no update are marked as overlapping the updates.
    """
    updates = set(variable_updates(added))
    reduced: set[tf.Operation] = set()
    for reduction in reductions:
        fed = updates & descendants(reduction.ops)
        reduction.site.overlaps_updates = not fed
        reduced |= fed
    return list(reduced or updates)
