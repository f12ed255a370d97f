"""Gradients in bfloat16 on the wire: half the bytes of each all-reduce, for a network that is the limit.

Each replica rounds its gradients to 8 bits of precision; they are summed in bfloat16 and applied in float32. Mixed
precision is another technique: its gradients are float32 again before they are reduced.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

VALUES = "bfloat16"
REFUSED = {
    "one-device": "it has no all-reduce",
    "central-storage": "its gradients are summed on the parameter device, without an all-reduce",
    "parameter-server": "each worker pushes its gradients to the servers, without an all-reduce",
}


def parse(text: str) -> tf.DType:
    """Return the type on the wire. Raises ValueError.

    Not float16, whose largest number is 65,504: a sum over replicas would overflow.
    """
    if text != "bfloat16":
        raise ValueError("write bfloat16")
    return tf.bfloat16


def exchange(kind: tf.DType, gradients: list[Any]) -> list[Any]:
    """Return the sum of the replicas' gradients, in their own types."""
    replica = tf.distribute.get_replica_context()
    narrow = [tf.cast(gradient, kind) for gradient in gradients]
    summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, narrow)
    return [tf.cast(each, gradient.dtype) for each, gradient in zip(summed, gradients, strict=True)]
