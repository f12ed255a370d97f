"""Service of tf.data: a dispatcher and workers make the batches, in processes and on hosts of their own.

It is for input that costs more than the cores beside the accelerators can give. TF_CONFIG of a dispatcher or a service
worker names the whole cluster. A training task's must not, since strategies refuse these roles: `ADDRESS` has the
dispatcher's address.
"""

from __future__ import annotations

import os

import tensorflow as tf

ADDRESS = "TFSCALE_DATA_SERVICE"
"""Variable that holds `grpc://host:port` of the dispatcher; agents set it."""


def serve() -> None:
    """Serve as the dispatcher or the worker that TF_CONFIG says. Never returns."""
    service = tf.data.experimental.service
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    own = cluster.task_address(resolver.task_type, resolver.task_id)
    port = int(own.rpartition(":")[2])
    if resolver.task_type == "dispatcher":
        service.DispatchServer(service.DispatcherConfig(port=port, protocol="grpc")).join()
    else:
        # The address is the one that training tasks are told; left out, it would be localhost.
        dispatcher = cluster.task_address("dispatcher", 0)
        config = service.WorkerConfig(dispatcher, worker_address=own, port=port, protocol="grpc")
        service.WorkerServer(config).join()


def served(data: tf.data.Dataset, sharding: str, job: str) -> tf.data.Dataset:
    """Return the pipeline as run by the service; training tasks that name the same job share its batches.

    Args:
        data: the pipeline.
        sharding: the processing mode: `dynamic` gives an example to the worker that is free, `off` all to each.
        job: name of the job.
    """
    policy = tf.data.experimental.service.ShardingPolicy[sharding.upper()]
    return data.apply(tf.data.experimental.service.distribute(policy, os.environ[ADDRESS], job_name=job))
