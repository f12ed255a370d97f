"""Parameter server: servers hold the variables; each worker pulls them and pushes gradients, at its own pace.

For workers of unequal speed and very large embeddings. The chief's program schedules the steps; workers and servers
only serve it. A worker's gradients may be computed from older variables than those they are applied to.
"""

from __future__ import annotations

import tensorflow as tf

REPLICAS = "one a worker; workers do not wait for each other"
OPTIONS = {"partitioner": ("none", "fixed", "min-size"), "shards": (1, 64), "shard_bytes": (1, 1_000_000_000)}
ROLES = {
    "chief": (None, 1, 1, 1),
    "worker": ("workers", 2, 1, 64),
    "ps": ("servers", 2, 1, 64),
    "evaluator": ("evaluators", 0, 0, 1),
}
SERVING = ("worker", "ps")
"""Roles that call `serve` and never return."""


def check_options(
    keras: str, partitioner: str = "none", shards: int | None = None, shard_bytes: int | None = None
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
    partitioner: str = "none", shards: int | None = None, shard_bytes: int | None = None
) -> tf.distribute.Strategy:
    """Return the strategy, in the chief."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    servers = resolver.cluster_spec().num_tasks("ps")
    return tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=_partitioner(partitioner, shards, servers, shard_bytes)
    )


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
