"""Multi-worker mirrored: a copy of the model on each worker, gradients summed over the network in every step.

For several hosts. TF_CONFIG says who the workers are; each runs the same program. On CPUs a worker has one replica, and
TensorFlow sums by a ring over gRPC, whatever `--communication` asks for.
"""

from __future__ import annotations

import tensorflow as tf

REPLICAS = "one a worker on CPUs, one a GPU elsewhere"
OPTIONS = {"communication": ("auto", "ring", "nccl")}
ROLES = {"chief": (None, 0, 0, 1), "worker": ("workers", 2, 1, 64)}


def create(communication: str = "auto", bytes_per_pack: int = 0) -> tf.distribute.Strategy:
    """Return the strategy. Raises ValueError where NCCL is not there.

    Waits for all workers. TensorFlow itself would only warn that there is no NCCL without a GPU, and run the ring.
    """
    if communication == "nccl" and not tf.config.list_physical_devices("GPU"):
        raise ValueError("--communication nccl: NCCL needs a GPU in each worker, and this one has none; use ring")
    implementation = tf.distribute.experimental.CommunicationImplementation(communication.upper())
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack, implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
