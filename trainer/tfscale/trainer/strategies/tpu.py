"""TPU: a replica on each core of a TPU, each step compiled by XLA as a whole.

`--tpu local` on a TPU VM; else the name of a Cloud TPU, or its address, grpc://10.0.0.2:8470.
"""

from __future__ import annotations

import socket

import tensorflow as tf

REPLICAS = "one a core of the TPU"
OPTIONS = {"tpu": "local, a name, or grpc://HOST:PORT; default local"}
ROLES = {"worker": (None, 1, 1, 1)}


def create(tpu: str = "local") -> tf.distribute.Strategy:
    """Return the strategy. Raises ValueError where no TPU of this name answers."""
    # TensorFlow raises whatever the way to the TPU raises: errors of HTTP, of sockets, of its own runtime.
    try:
        if tpu.startswith("grpc://"):
            # TensorFlow would wait for an address where nobody listens.
            host, _, port = tpu.removeprefix("grpc://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=5).close()
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].partition(". ")[0]
        raise ValueError(f"--tpu {tpu}: no TPU answers ({reason}); use another strategy on this host") from error
    return tf.distribute.TPUStrategy(resolver)
