"""Parameter server: servers hold the variables; each worker pulls them and pushes gradients, at its own pace.

For workers of unequal speed and very large embeddings. The chief's program schedules the steps; workers and servers
only serve it. A worker's gradients may be computed from older variables than those they are applied to.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.trainer.tf_internals import PLACEMENT

REPLICAS = "one a worker; workers do not wait for each other"
OPTIONS = {
    "placement": ("by-size", "in-turn"),
    "partitioner": ("none", "fixed", "min-size"),
    "shards": (1, 64),
    "shard_bytes": (1, 1_000_000_000),
}
ROLES = {
    "chief": (None, 1, 1, 1),
    "worker": ("workers", 2, 1, 64),
    "ps": ("servers", 2, 1, 64),
    "evaluator": ("evaluators", 0, 0, 1),
}
SERVING = ("worker", "ps")
"""Roles that call `serve` and never return."""


def check_options(
    keras: str, partitioner: str = "none", shards: int | None = None, shard_bytes: int | None = None, **_: str
) -> None:
    """Raise ValueError where options contradict each other, or where this Keras cannot do it."""
    if shards is not None and partitioner == "none":
        raise ValueError(f"--shards {shards}: only with --partitioner fixed or min-size")
    if partitioner != "none" and keras == "keras":
        raise ValueError(
            f"--partitioner {partitioner}: a variable of Keras 3 cannot be split; set TF_USE_LEGACY_KERAS=1"
        )
    if shard_bytes is not None and partitioner != "min-size":
        raise ValueError(f"--shard-bytes {shard_bytes}: only --partitioner min-size takes it")


def create(
    placement: str = "by-size", partitioner: str = "none", shards: int | None = None, shard_bytes: int | None = None
) -> tf.distribute.Strategy:
    """Return the strategy, in the chief. Raises ValueError where this TensorFlow places variables in another way."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    servers = resolver.cluster_spec().num_tasks("ps")
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=_partitioner(partitioner, shards, servers, shard_bytes)
    )
    if placement == "by-size":
        _place_by_size(strategy)
    return strategy


def _place_by_size(strategy: tf.distribute.Strategy) -> None:
    """Let each new variable go to the server that holds the fewest bytes so far; TensorFlow takes servers in turn.

    Of layers with a kernel and a bias, two servers in turn would have all kernels on the first. It is the rule of
    `tf.contrib.training.GreedyLoadBalancingStrategy` in TensorFlow 1. Slots of optimizers stay with their variables.
    """
    if (fault := PLACEMENT.fault()) is not None:
        raise ValueError(f"--placement by-size: {fault}")
    extended = strategy.extended
    in_turn, held = extended._create_variable_round_robin, [0] * extended._num_ps

    def create_variable(next_creator: Any, **kwargs: Any) -> Any:
        server = held.index(min(held))
        extended._variable_count = server
        variable = in_turn(next_creator, **kwargs)
        held[server] += (variable.shape.num_elements() or 0) * variable.dtype.size
        return variable

    extended._create_variable_round_robin = create_variable


def _partitioner(
    kind: str, shards: int | None, servers: int, shard_bytes: int | None
) -> tf.distribute.experimental.partitioners.Partitioner:
    """Return the split of a variable over the servers; None leaves each variable whole, on one server."""
    partitioners = tf.distribute.experimental.partitioners
    if kind == "fixed":
        return partitioners.FixedShardsPartitioner(shards or servers)
    return partitioners.MinSizePartitioner(shard_bytes or 256 << 10, shards or servers) if kind == "min-size" else None


def serve() -> None:
    """Serve the chief as this worker or parameter server. Never returns."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    ).join()
