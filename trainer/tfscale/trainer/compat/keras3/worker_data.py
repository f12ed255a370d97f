"""Data for the workers of ParameterServerStrategy in `fit` and `evaluate` of Keras 3.

Keras gives a strategy's data set to its loop, but under ParameterServerStrategy (TensorFlow 2.21.0) only
`ClusterCoordinator.create_per_worker_dataset` makes a data set on the workers.

Data that Python makes (a generator, a PyDataset, `tf.py_function`) are read on the chief, which gives each batch to a
worker. On a worker, each batch would be a call back to the chief's Python. During such a call the chief cannot make its
next function known to that worker: it holds Python's lock and waits for the worker, and the worker waits for the lock.
So `evaluate` after `fit` hung for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tfscale.trainer.tf_internals import coordinator_values, input_lib

_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
"""Operations that call Python."""


class FedExecution:
    """Batches of one execution, which the chief reads."""

    def __init__(self, iterator: Iterator[Any], steps: int) -> None:
        self._iterator = iterator
        self._steps = steps

    def batches(self) -> list[Any]:
        """Return the next batches, fewer where the data end."""
        return list(itertools.islice(self._iterator, self._steps))


def read_here(data: Any) -> tf.data.Dataset | None:
    """Return the data set if Python makes it, so that the chief must read it; None for any other data set."""
    data = data._original_dataset if isinstance(data, input_lib.DistributedDataset) else data
    return data if isinstance(data, tf.data.Dataset) and _runs_python(data) else None


def _runs_python(data: Any) -> bool:
    graphs = (function.function.graph.as_graph_def() for function in data._functions())
    return any(map(_calls_python, graphs)) or any(map(_runs_python, data._inputs()))


def _calls_python(graph: Any) -> bool:
    nodes = itertools.chain(graph.node, *(function.node_def for function in graph.library.function))
    return not _PYTHON.isdisjoint(node.op for node in nodes)


class WorkerData:
    """Epochs from iterators that stay on the workers."""

    def __init__(self, strategy: tf.distribute.Strategy, data: Any, size: int | None, steps: int | None) -> None:
        """Take a data set of `size` batches (None unless finite), or a distributed one; `steps` make an epoch.

        Raises ValueError where the length of an epoch is unknown.
        """
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
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
        """Specification of one worker's batch."""
        return self._data.element_spec

    def __iter__(self) -> Any:
        return iter(self._data)


class _Staggered(coordinator_values.PerWorkerDatasetFromDatasetFunction):  # type: ignore[misc]
    """Finite data set that repeats without end; each worker begins at another element.

    Every worker has all of the data. If all began at the same place, an epoch would be the first part of the data, once
    for each worker; this way, an epoch of equally fast workers is the whole data set once.
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
