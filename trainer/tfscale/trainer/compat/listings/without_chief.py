"""ParameterServer clusters of workers and servers alone, with one script for all tasks and no `Server.join` in it.

Stock TensorFlow (seen with 2.21.0) makes each of these tasks a coordinator, and all wait for ever for a server that
nobody has started. Here each task serves its place, and worker 0 also runs the script as coordinator.
"""

from __future__ import annotations

import functools
import socket
from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.listings.erratum import note

_SERVING = ("worker", "ps")
_servers: list[Any] = []
"""Servers of this process: the script's own, and the server of worker 0, which lives as long as the process."""


def repair(tensorflow: Any) -> None:
    """Serve where the script asks for a strategy and has started no server; only worker 0 goes on in the script."""
    kind = tensorflow.distribute.ParameterServerStrategy
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, cluster_resolver: Any, *args: Any, **kwargs: Any) -> None:
        make(self, _coordinator(cluster_resolver), *args, **kwargs)

    kind.__init__ = made
    _notice_servers(tensorflow.distribute.Server)


def _notice_servers(kind: Any) -> None:
    """Remember the script's servers, and warn where a task joins a server that no coordinator will use."""
    make, join = kind.__init__, kind.join

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _servers.append(self)

    @functools.wraps(join)
    def joined(self: Any) -> Any:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().jobs
        if {*_SERVING} <= {*jobs} and "chief" not in jobs and (resolver.task_type, resolver.task_id) == ("worker", 0):
            note(
                "all tasks of this cluster serve, and none trains: add a chief to the cluster, chief = ['host:port'], "
                "or leave Server.join out: worker:0 then serves and runs the script"
            )
        return join(self)

    kind.__init__, kind.join = made, joined


def _coordinator(resolver: Any) -> Any:
    """Return the resolver of a coordinator; in a task that only serves, serve and never return."""
    cluster, role, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    if _servers or role not in _SERVING or not {*_SERVING} <= {*cluster.jobs} or "chief" in cluster.jobs:
        return resolver
    protocol = resolver.rpc_layer or "grpc"
    _servers.append(tf.distribute.Server(cluster, job_name=role, task_index=index, protocol=protocol, start=True))
    if (role, index) != ("worker", 0):
        note(f"this cluster has no chief: {role}:{index} serves, and worker:0 runs the script")
        _servers[-1].join()
    note("this cluster has no chief: worker:0 serves, and runs the script as coordinator; add chief = ['host:port']")
    tasks = cluster.as_dict() | {"chief": [_free_address(cluster.task_address("worker", 0))]}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(tasks), task_type="chief", task_id=0, rpc_layer=protocol
    )


def _free_address(worker: str) -> str:
    """Return a free address on this host, worker 0's, that other tasks can reach."""
    host = worker.rpartition(":")[0]
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"
