"""`keras.utils.experimental.DatasetCreator`, which books and tutorials use; Keras 3.0 to 3.15.1 do not have it.

It means the same as in tf_keras: a function that each worker calls to make its data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class DatasetCreator:
    """Function of a `tf.distribute.InputContext` that returns a worker's `tf.data.Dataset`."""

    def __init__(self, dataset_fn: Callable[..., Any], input_options: Any = None) -> None:
        """Keep the function. Raises TypeError for another object."""
        if not callable(dataset_fn):
            raise TypeError(f"`dataset_fn` for `DatasetCreator` must be a `callable`. Received: {dataset_fn}")
        self.dataset_fn = dataset_fn
        self.input_options = input_options

    def __call__(self, *args: Any, **kwargs: Any) -> tf.data.Dataset:
        """Return the data of one worker. Raises TypeError where `dataset_fn` returns no data set."""
        dataset = self.dataset_fn(*args, **kwargs)
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                f'The `callable` provided to `DatasetCreator` must return a Dataset. It returns "{dataset}"'
            )
        return dataset

    def whole(self) -> tf.data.Dataset:
        """Return the data of a program that has one worker."""
        return self(tf.distribute.InputContext())

    def distributed(self, strategy: tf.distribute.Strategy) -> Any:
        """Return the data of all workers."""
        return strategy.distribute_datasets_from_function(self, options=self.input_options)
