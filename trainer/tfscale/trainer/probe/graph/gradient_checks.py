"""Checks in graphs whether the gradients of each local replica are finite, before they are reduced over all replicas.

After the reduction a non-finite number is in the gradients of all workers. A check reads the gradients on their own
devices, and writes a row only if some are not finite. Only the stamp after the reduction waits for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.graph.structures import replica_gradients
from tfscale.trainer.probe.graph.traced_run import TracedRun
from tfscale.trainer.probe.rows.row_buffer import RowBuffer
from tfscale.trainer.probe.rows.row_kinds import RowKinds
from tfscale.trainer.probe.rows.spans import Site
from tfscale.trainer.probe.steps.gradient_watch import NonFinite

_CHECKED = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
_REPLICA = re.compile(r"/replica_\d+")


class _Check(NamedTuple):
    """Check of one local replica's gradients. `names` are the checked variables, empty where unknown."""

    site: Site
    replica: int
    names: tuple[str, ...]
    variables: int


class GradientChecks:
    """Checks of all graphs of this process, and the gradients that were not finite until these are read."""

    def __init__(self, kinds: RowKinds) -> None:
        self._kinds = kinds
        self._by_kind: dict[int, _Check] = {}
        self._found: list[NonFinite] = []
        self._lock = threading.Lock()

    def check(self, buffer: RowBuffer, site: Site, handed: Any, run: TracedRun | None) -> list[tf.Operation]:
        """Check the gradients that each local replica hands to a reduction in a run, and return the ops of the checks.

        None where nothing is exchanged, or no gradients were computed so far: then the tensors are no gradients.
        """
        if run is None or not run.gradients or not site.collective:
            return []
        made = [self._check_replica(buffer, site, *each, run) for each in enumerate(replica_gradients(handed))]
        return [op for op in made if op is not None]

    def _check_replica(
        self, buffer: RowBuffer, site: Site, replica: int, gradients: list[tf.Tensor | None], run: TracedRun
    ) -> tf.Operation | None:
        checked = {index: each for index, each in enumerate(gradients) if each is not None and each.dtype in _CHECKED}
        if not checked:
            return None
        kind = self._kinds.new_kind([])
        if (op := buffer.check(kind, list(checked.values()))) is None:
            return None
        names = _names(run, len(gradients))
        with self._lock:
            of_checked = tuple(names[index] for index in checked) if names else ()
            self._by_kind[kind] = _Check(site, replica, of_checked, len(checked))
        return op

    @property
    def are_made(self) -> bool:
        """True once a graph checks gradients from which variables are updated."""
        with self._lock:
            return any(not check.site.overlaps_updates for check in self._by_kind.values())

    def taken_out(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows other than the checks', which are kept until `drain`."""
        if not self._by_kind or not len(rows):
            return rows
        of_checks = np.isin(rows[:, 0], list(self._by_kind))
        for kind, at, index, count in rows[of_checks, :4].tolist():
            site, replica, names, variables = self._by_kind[int(kind)]
            if not site.overlaps_updates:
                first = names[int(index)] if names else ""
                self._found.append(NonFinite(at, replica, int(count), variables, first))
        return rows[~of_checks]

    def drain(self) -> list[NonFinite]:
        """Return the gradients that were found not finite since the last call, oldest first."""
        found, self._found = self._found, []
        return sorted(found)


def with_gradients(sources: Any, gradients: Any) -> tuple[str, ...]:
    """Return the names of the variables among the sources of a tape that have a gradient."""
    flat = tf.nest.flatten(sources)
    pairs: Iterable[tuple[Any, Any]] = zip(flat, tf.nest.flatten(gradients), strict=False)
    return tuple(_name(source) for source, gradient in pairs if gradient is not None)


def _name(source: Any) -> str:
    # A variable of Keras 3 has its layer in its path alone; a tensor has no name that tells anything.
    name = getattr(source, "path", "") or ("" if isinstance(source, tf.Tensor) else getattr(source, "name", ""))
    return _REPLICA.sub("", str(name).partition(":")[0])


def _names(run: TracedRun, count: int) -> tuple[str, ...]:
    """Return the names of `count` variables whose gradients a run has computed; empty if they are ambiguous."""
    candidates = {names for names in run.variables if len(names) == count}
    return candidates.pop() if len(candidates) == 1 else ()
