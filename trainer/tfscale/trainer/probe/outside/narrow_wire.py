"""Gradients in bfloat16 on the wire, for a script that knows nothing of it.

The sums over replicas that the script or its optimizer asks for are made in bfloat16, and handed back in float32: as
`techniques/wire.py` does in programs of tfscale's own. Other sums, such as those of a normalization, stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfscale.trainer.probe.outside.defaults import caller, is_of_script, take

NAME = "wire"


def put(tensorflow: Any) -> None:
    """Put it into the sum over replicas by which Keras 3 and scripts reduce their gradients."""
    context = tensorflow.distribute.ReplicaContext
    reduce = context.all_reduce

    @functools.wraps(reduce)
    def all_reduce(replica: Any, reduce_op: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if replica.num_replicas_in_sync < 2 or not _reduces_gradients(caller()):
            return reduce(replica, reduce_op, value, *args, **kwargs)
        return _in_bfloat16(tensorflow, lambda narrow: reduce(replica, reduce_op, narrow, *args, **kwargs), value)

    context.all_reduce = all_reduce


def put_in_keras_2(tensorflow: Any, utilities: Any) -> None:
    """Put it into the module of Keras 2 by which its optimizers reduce: it may reduce outside of the replicas."""
    reduce = utilities.all_reduce_sum_gradients

    @functools.wraps(reduce)
    def all_reduce_sum_gradients(grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        replica = tensorflow.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync < 2:
            return reduce(pairs)
        variables = [variable for _, variable in pairs]

        def summed(narrow: Any) -> Any:
            return [gradient for gradient, _ in reduce(zip(narrow, variables))]  # noqa: B905 - one for each

        gradients = _in_bfloat16(tensorflow, summed, [gradient for gradient, _ in pairs])
        return list(zip(gradients, variables))  # noqa: B905 - one for each

    utilities.all_reduce_sum_gradients = all_reduce_sum_gradients


def _reduces_gradients(module: str) -> bool:
    return is_of_script(module) or "optimizer" in module


def _in_bfloat16(tensorflow: Any, reduce: Callable[[Any], Any], value: Any) -> Any:
    """Return the reduced tensors in their own types; dense ones of float32 that are no scalars are narrow meanwhile."""
    wide = tensorflow.nest.flatten(value)
    narrow = [tensorflow.cast(each, tensorflow.bfloat16) if _is_wide(tensorflow, each) else each for each in wide]
    if any(_is_wide(tensorflow, each) for each in wide):
        take(NAME)
    reduced = tensorflow.nest.flatten(reduce(tensorflow.nest.pack_sequence_as(value, narrow)))
    again = [
        tensorflow.cast(after, tensorflow.float32) if _is_wide(tensorflow, before) else after
        for before, after in zip(wide, reduced)  # noqa: B905 - one for each
    ]
    return tensorflow.nest.pack_sequence_as(value, again)


def _is_wide(tensorflow: Any, each: Any) -> bool:
    return isinstance(each, tensorflow.Tensor) and each.dtype == tensorflow.float32 and each.shape.rank != 0
