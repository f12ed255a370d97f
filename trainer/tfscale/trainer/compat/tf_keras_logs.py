"""Logs of a step in tf_keras under several workers, as Keras prints them at the end of the epoch.

A metric's result already covers all workers, and tf_keras 2.21.0 on TensorFlow 2.21.0 adds it up over the workers once
more: two workers show twice the loss in the logs of each batch, and in the results of `train_on_batch` and
`test_on_batch`.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

_MARK = "_tfscale_of_all_workers"


def repair(training: Any) -> None:
    """Put the repair into the module `tf_keras.src.engine.training`."""
    _mark_results(training.Model)
    original = training.reduce_per_replica

    @functools.wraps(original)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        def reduced(value: Any) -> Any:
            return value if hasattr(value, _MARK) else original(value, strategy, reduction)

        if not training._collective_all_reduce_multi_worker(strategy):
            return original(values, strategy, reduction)
        return tf.nest.map_structure(reduced, values)

    training.reduce_per_replica = reduce_per_replica


def _mark_results(kind: Any) -> None:
    original = kind.get_metrics_result

    @functools.wraps(original)
    def get_metrics_result(self: Any) -> Any:
        results = original(self)
        for result in tf.nest.flatten(results):
            if tf.is_tensor(result):
                setattr(result, _MARK, True)
        return results

    kind.get_metrics_result = get_metrics_result
