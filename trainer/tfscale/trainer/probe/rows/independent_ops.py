"""Ops that wait for chosen tensors alone, and that no op of the program waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def outside(after: Sequence[tf.Tensor | tf.Operation]) -> Iterator[None]:
    """Make the ops of this block on the CPU: they wait for `after`, not for control dependencies around them."""
    with tf.control_dependencies(None), tf.device("/device:CPU:0"), tf.control_dependencies(list(after)):
        yield


def independent(op: tf.Operation) -> tf.Operation:
    """Return the op without the automatic control dependencies of `tf.function`.

    Chained like other stateful ops, stamps would wait for one another and name the wrong replica
    (docs/reference/cells.md).
    """
    op.graph.experimental_acd_manager.run_independently(op)
    return op
