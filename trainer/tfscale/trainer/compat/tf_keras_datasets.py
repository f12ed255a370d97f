"""Distributed data sets without `steps_per_epoch` in tf_keras, as Keras 3 accepts them.

tf_keras 2.21.0 on TensorFlow 2.21.0 refuses them because "DistributedDatasets have no cardinality", although they have.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def repair(adapters: Any) -> None:
    """Put the repair into the module `tf_keras.src.engine.data_adapter`."""
    kind = adapters.DatasetAdapter
    validate, size, recreate = kind._validate_args, kind.get_size, kind.should_recreate_iterator

    def is_counted(adapter: Any) -> bool:
        """Return whether an epoch is the whole of a distributed data set."""
        data = adapter._dataset
        return bool(
            adapter._user_steps is None
            and adapters._is_distributed_dataset(data)
            and getattr(data, "_built", False)
            and data.cardinality != tf.data.INFINITE_CARDINALITY
        )

    def validate_args(self: Any, y: Any, sample_weights: Any, steps: Any, *shards: Any) -> None:
        # One step passes the check; how many are trained does not depend on it. Keras 2.12 has no shards.
        validate(self, y, sample_weights, 1 if is_counted(self) else steps, *shards)

    def get_size(self: Any) -> Any:
        if not is_counted(self):
            return size(self)
        # tf_keras counts an unknown size in the first epoch.
        return int(self._dataset.cardinality) if self._dataset.cardinality >= 0 else None

    def should_recreate_iterator(self: Any) -> bool:
        return is_counted(self) or bool(recreate(self))

    kind._validate_args = validate_args
    kind.get_size = get_size
    kind.should_recreate_iterator = should_recreate_iterator
