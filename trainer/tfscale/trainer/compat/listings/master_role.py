"""Clusters whose chief is called `master`, as AI Platform and older operators write TF_CONFIG.

Stock TensorFlow 2 refuses them (`Disallowed task type found in cluster spec`, seen with 2.21.0). The variable stays
unchanged, because scripts for such a platform read the name there; only TensorFlow's resolver reads `chief`.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tfscale.core.cluster.task import MASTER, Role
from tfscale.trainer.compat.listings.erratum import note


def repair(tensorflow: Any) -> None:
    """Let the resolver of TF_CONFIG say `chief` where that says `master`."""
    kind = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver
    read, own = kind.cluster_spec, kind.task_type

    @functools.wraps(read)
    def cluster_spec(self: Any) -> Any:
        return _renamed(read(self))

    def task_type(self: Any) -> str | None:
        found: str | None = own.fget(self)
        return str(Role.CHIEF) if found == MASTER else found

    kind.cluster_spec, kind.task_type = cluster_spec, property(task_type, own.fset, doc=own.__doc__)


def _renamed(cluster: Any) -> Any:
    jobs = cluster.as_dict()
    if MASTER not in jobs or Role.CHIEF in jobs:
        return cluster
    note("TF_CONFIG calls the chief 'master', which TensorFlow 2 refuses: its strategies read it as 'chief'")
    return tf.train.ClusterSpec({str(Role.CHIEF): jobs.pop(MASTER), **jobs})
