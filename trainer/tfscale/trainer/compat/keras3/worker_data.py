"""The data of ParameterServerStrategy's workers for Keras 3's `fit` and `evaluate`.

Keras hands a strategy's data set to its loop, but under ParameterServerStrategy (TensorFlow 2.21.0) only
`ClusterCoordinator.create_per_worker_dataset` makes one on the workers.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import input_lib
from tensorflow.python.distribute.coordinator import cluster_coordinator
from tensorflow.python.distribute.coordinator import values as coordinator_values


class WorkerData:
    """One epoch after the other from iterators that stay on the workers."""

    def __init__(self, strategy: tf.distribute.Strategy, data: Any, size: int | None, steps: int | None) -> None:
        """`data` is a data set of `size` batches, None unless finite, or a distributed one; `steps` make an epoch.

        Raises ValueError where it is not known how long an epoch is.
        """
        self._coordinator = cluster_coordinator.ClusterCoordinator(strategy)
        if isinstance(data, input_lib.DistributedDataset):
            data = data._original_dataset
            size = int(data.cardinality())
        finite = size if size is not None and size >= 0 else None
        if not steps and finite is None:
            raise ValueError(
                "Under ParameterServerStrategy an epoch ends after a number of steps that is known before: "
                "pass steps_per_epoch to `fit`, and `validation_steps` or `steps` for evaluation."
            )
        self.steps: int = steps or finite or 0
        if finite is not None:
            self._data = _Staggered(data, finite, self._coordinator)
        else:
            distributed = strategy.experimental_distribute_dataset(data) if isinstance(data, tf.data.Dataset) else data
            self._data = self._coordinator.create_per_worker_dataset(distributed)

    @property
    def element_spec(self) -> Any:
        """Of one worker's batch."""
        return self._data.element_spec

    def __iter__(self) -> Any:
        return iter(self._data)


class _Staggered(coordinator_values.PerWorkerDatasetFromDatasetFunction):  # type: ignore[misc]
    """A finite data set without end, in which each worker begins at another place.

    Every worker has all of the data. Were they to begin at the same place, an epoch would be its first part, as many
    times as there are workers; so an epoch of workers that are equally fast is the whole data set once.
    """

    def __init__(self, data: tf.data.Dataset, size: int, coordinator: Any) -> None:
        graph = coordinator_values.serialize_dataset_to_graph(data)
        spec, strategy = data.element_spec, coordinator.strategy
        self._size = size

        def begin_at(place: Any) -> Any:
            everything = coordinator_values.deserialize_dataset_from_graph(graph, spec).repeat().skip(place)
            return strategy.experimental_distribute_dataset(everything)

        traced = tf.function(begin_at, input_signature=[tf.TensorSpec((), tf.int64)])
        super().__init__(traced.get_concrete_function(), coordinator)

    def __iter__(self) -> Any:
        workers = self._coordinator._cluster.workers
        spec = input_lib.get_iterator_spec_from_dataset(self._coordinator.strategy, self._dataset_fn.structured_outputs)
        iterators = []
        for index, worker in enumerate(workers):
            place = tf.constant(index * self._size // len(workers), tf.int64)
            iterators.append(worker.create_resource(lambda place: iter(self._dataset_fn(place)), args=(place,)))
            iterators[-1]._type_spec = spec
        return coordinator_values.PerWorkerDistributedIterator(tuple(iterators))
