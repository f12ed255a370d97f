"""Run of a program during the trace of its graph, or while it runs eagerly."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.core.cluster.strategy import LOCAL
from tfscale.trainer.probe.graph.structures import (
    dense_bytes,
    descendants,
    fixed_bytes,
    iterations,
    ops_in,
    replica_tensors,
    sparse_gradients,
    updates_fed_by,
    variable_updates,
    wire_type,
)
from tfscale.trainer.probe.rows.spans import Counter, Distribution, Site


class RunPlace(NamedTuple):
    """Place in the program that makes steps, or parts of steps."""

    distribution: Distribution
    key: Hashable
    """Identity of the place: the same whenever the same lines run."""
    is_optimizer: bool = False
    """True for an optimizer outside of `Strategy.run`."""
    whole: bool = False
    """True for a function whose graph takes no stamps."""


def _iterations(loop: Any) -> int:
    return 1 if loop is None else iterations(loop)


class Reduction(NamedTuple):
    """Reduction in a graph: its results, and the stamp of its end.

    With one replica nothing is reduced: under a condition (`tf.cond`) the results may be gradients of the graph around
    it.
    """

    site: Site
    results: list[tf.Tensor]
    stamp: tf.Operation

    @property
    def ops(self) -> set[tf.Operation]:
        """Ops that make the results in the graph of the reduction, once the graph uses them."""
        return ops_in(self.stamp.graph, self.results)


class UnresolvedReductions:
    """Reductions in another graph than their run: later it becomes known whether updates of variables wait for them."""

    def __init__(self) -> None:
        self._reductions: list[Reduction] = []

    def add(self, reductions: list[Reduction]) -> None:
        """Add reductions of the graph under trace."""
        self._reductions += reductions

    def resolve(self) -> None:
        """Decide for each reduction whether updates wait for it, once rows show that all graphs have been traced."""
        unresolved, self._reductions = self._reductions, []
        for reduction in unresolved:
            reduction.site.overlaps_updates = not updates_fed_by(reduction.ops)


@dataclass
class TracedRun:
    """Observations inside one run, during its trace or while it runs eagerly."""

    trains: bool = False
    loop: Any = None
    """Graph of the loop inside of the run in which gradients are computed; None without one."""
    asks: bool = False
    """True if a batch is requested inside, where it cannot be stamped."""
    unsplit: bool = False
    counter: Counter | None = None
    begun: list[tf.Operation] = field(default_factory=list)
    """Stamp of the run's begin, in a graph that does not itself request a batch."""
    reductions: list[Reduction] = field(default_factory=list)
    gradients: dict[int, list[tf.Tensor]] = field(default_factory=dict)
    """Gradients of each local replica."""
    variables: list[tuple[str, ...]] = field(default_factory=list)
    """Names of the variables whose gradients each call has computed."""

    _applied: Counted[tuple[Any, ...]] = field(default_factory=Counted)
    """Number of places that apply gradients, by optimizer, replica and graph: only one branch of a condition runs."""
    _updating_loop: Any = None

    def note_applied(self, counter: Counter | None, loop: Any) -> None:
        """Note that a replica applies gradients with the optimizer of this counter, in this loop inside of the run."""
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._applied[counter, tf.distribute.get_replica_context(), graph] += 1
        self._updating_loop = self._updating_loop or loop

    @property
    def applies(self) -> bool:
        """True where an optimizer applies gradients."""
        return bool(self._applied)

    @property
    def updates(self) -> int:
        """Number of updates that the run makes: those of the optimizer with the most."""
        return max(self._applied.values(), default=1) * _iterations(self._updating_loop)

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches whose gradients a loop inside of the run computes in turn for one update."""
        return 1 if self._updating_loop is not None else _iterations(self.loop)


def reduction_traits(handed: Any, distribution: Distribution, *, gathers: bool, in_run: bool) -> dict[str, Any]:
    """Return the traits of the site of a reduction, or of a gather, by its `handed` tensors."""
    replica, sparse = replica_tensors(handed)[0], sparse_gradients(handed)
    return {
        "bytes": fixed_bytes(replica),
        "gathered": fixed_bytes(replica if gathers else replica_tensors(sparse)[0]),
        "gathers_more": gathers or bool(sparse),
        "dense_bytes": dense_bytes(sparse),
        "wire_type": wire_type(replica),
        "in_run": in_run,
        "overlaps_updates": not in_run,
        "collective": distribution.replicas > 1,
        "local": distribution.collective == LOCAL,
    }


def changes_variables(run: TracedRun) -> bool:
    """Return whether a run changes variables by its own gradients, with an optimizer or by hand."""
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
