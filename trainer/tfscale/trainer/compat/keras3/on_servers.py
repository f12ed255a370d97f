"""Keras 3 under ParameterServerStrategy: the steps of an epoch are scheduled on the workers, as in tf_keras.

The trainer of Keras 3.15.1 on TensorFlow 2.21.0 does not support this strategy: it iterates over data that are on no
worker, and runs its steps on the chief.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.keras3.across_workers import batch_spec
from tfscale.trainer.compat.keras3.chief_only import ChiefOnlyStrategy, on_the_chief, strategy_of
from tfscale.trainer.compat.keras3.dataset_creator import DatasetCreator
from tfscale.trainer.compat.keras3.scheduler import PendingLogs, Scheduler
from tfscale.trainer.compat.keras3.steps_per_execution import PartialExecution, each, loop, one_step
from tfscale.trainer.compat.keras3.worker_data import FedExecution, WorkerData, read_here
from tfscale.trainer.tf_internals import KERAS_ON_SERVERS, keras_trainer


def repair(trainer: Any) -> None:
    """Put the repairs into the module `keras.src.backend.tensorflow.trainer`."""
    kind = keras_trainer()
    kind.distribute_strategy = property(strategy_of)
    _repair_size()
    _repair_epochs(trainer.TFEpochIterator)
    _repair_symbolic_build(kind)
    _repair_functions(trainer, kind)
    _repair_logs(kind)
    _repair_verbosity(kind)
    _repair_evaluate(trainer, kind)
    _repair_predict(kind)


def has_servers(strategy: Any) -> bool:
    """Return whether this strategy keeps variables on parameter servers and schedules functions on workers."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def _repair_size() -> None:
    """Give data that are on no worker yet no size: Keras asks for the size, and the question raises an error."""
    adapter = KERAS_ON_SERVERS["TFDatasetAdapter.num_batches"].owner
    original = adapter.num_batches.fget

    def num_batches(self: Any) -> Any:
        return original(self) if getattr(self._dataset, "_built", True) else None

    adapter.num_batches = property(num_batches)


def _repair_epochs(kind: Any) -> None:
    """End an epoch when all of its scheduled steps have ended."""
    initialise, enumerate_iterator, synchronise = kind.__init__, kind._enumerate_iterator, kind.tf_sync

    def init(self: Any, distribute_strategy: Any = None, x: Any = None, *args: Any, **kwargs: Any) -> None:
        if isinstance(x, DatasetCreator):
            x = _of_creator(x, distribute_strategy)
        if not has_servers(distribute_strategy):
            initialise(self, distribute_strategy, x, *args, **kwargs)
            return
        super(kind, self).__init__(x, *args, **kwargs)
        self._distribute_strategy = distribute_strategy
        data = self.data_adapter.get_tf_dataset()
        if (here := read_here(data)) is not None:
            self._distributed_dataset = here
            return
        data = WorkerData(distribute_strategy, data, self._num_batches, self.steps_per_epoch)
        self._distributed_dataset, self._num_batches = data, data.steps

    def epoch(self: Any) -> Iterator[tuple[int, int, Any]]:
        if not has_servers(self._distribute_strategy):
            yield from enumerate_iterator(self)
            return
        if not isinstance(self._distributed_dataset, WorkerData):
            for begin, end, batches in enumerate_iterator(self):
                yield begin, end, FedExecution(batches, self.steps_per_execution)
            return
        self.data_adapter.on_epoch_begin()
        # The workers' iterators stay: a new epoch continues where the last one ended.
        if self._current_iterator is None:
            self._current_iterator = iter(self._distributed_dataset)
        total, count = self._distributed_dataset.steps, self.steps_per_execution
        for begin in range(0, total, count):
            yield begin, begin + count - 1, PartialExecution(self._current_iterator, min(count, total - begin))
        self.data_adapter.on_epoch_end()

    def tf_sync(self: Any) -> None:
        if has_servers(self._distribute_strategy):
            tf.distribute.coordinator.ClusterCoordinator(self._distribute_strategy).join()
        synchronise(self)

    kind.__init__, kind._enumerate_iterator, kind.tf_sync = init, epoch, tf_sync


def _of_creator(creator: DatasetCreator, strategy: tf.distribute.Strategy) -> Any:
    here = read_here(creator.whole()) if has_servers(strategy) else None
    return creator.distributed(strategy) if here is None else here


def _repair_symbolic_build(kind: Any) -> None:
    """Take shapes from the specification of the data: the chief has no batch."""
    original = kind._maybe_symbolic_build

    def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if not has_servers(self._distribute_strategy) or iterator is None:
            original(self, iterator=iterator, data_batch=data_batch)
            return
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=batch_spec(iterator))

    kind._maybe_symbolic_build = maybe_symbolic_build


def _repair_functions(trainer: Any, kind: Any) -> None:
    original = kind._make_function

    def make_function(self: Any, step_function: Any) -> Any:
        if not has_servers(self._distribute_strategy):
            return original(self, step_function)
        if self.run_eagerly:
            raise ValueError(
                "ParameterServerStrategy schedules functions on workers: compile without run_eagerly=True."
            )
        here = one_step(trainer, self, step_function)
        scheduler = Scheduler(self._distribute_strategy, loop(one_step(trainer, self, step_function)))
        feeder = Scheduler(self._distribute_strategy, each(one_step(trainer, self, step_function)))

        def function(iterator: Any) -> Any:
            if isinstance(iterator, FedExecution):
                return feeder(*feeder.unless_over(iterator))
            if isinstance(iterator, PartialExecution) and isinstance(
                iterator.iterator, tf.distribute.experimental.coordinator.PerWorkerValues
            ):
                return scheduler(iterator.iterator, tf.constant(iterator.steps))
            return _here(self, here, iterator)

        return function

    kind._make_function = make_function


def _here(model: Any, step: Callable[[Any], Any], iterator: Any) -> Any:
    """Run an execution on the chief, for `evaluate` and `train_on_batch`."""
    steps = iterator.steps if isinstance(iterator, PartialExecution) else model.steps_per_execution
    outputs = None
    with on_the_chief(model):
        for _, batch in zip(range(steps), iterator, strict=False):
            outputs = step(batch)
    if outputs is None:
        raise StopIteration
    return outputs


def _repair_logs(kind: Any) -> None:
    """Make an epoch's logs the metrics of all its steps, not of the step that ended last."""
    original = kind._get_metrics_result_or_logs

    def get_metrics_result_or_logs(self: Any, logs: Any) -> Any:
        if not isinstance(logs, PendingLogs):
            return original(self, logs)
        names = dict.fromkeys(logs.names())
        fetched = original(self, names)
        # A train step that the user has written has other logs than the metrics.
        return {name: logs[name] for name in logs} if fetched is names else fetched

    kind._get_metrics_result_or_logs = get_metrics_result_or_logs


def _repair_verbosity(kind: Any) -> None:
    """Show no progress bar by default, as in tf_keras: a bar would wait for the logs of each step."""
    for name in ("fit", "evaluate"):
        kind_method = getattr(kind, name)
        setattr(kind, name, _with_epoch_lines(kind_method))


def _with_epoch_lines(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(self, *args, **kwargs)
        if has_servers(self._distribute_strategy) and given.arguments.get("verbose", "auto") == "auto":
            given.arguments["verbose"] = 2
        return original(*given.args, **given.kwargs)

    return method


def _repair_evaluate(trainer: Any, kind: Any) -> None:
    """Evaluate a finite data set on the chief, exactly; a given number of steps on the workers."""
    original = kind.evaluate

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(self, *args, **kwargs).arguments
        if not has_servers(self._distribute_strategy) or not _is_whole(given.get("x"), given.get("steps")):
            return original(self, *args, **kwargs)
        with on_the_chief(self) as chief:
            if kwargs.get("_use_cached_eval_dataset"):
                _bring_home(trainer, self, chief, kwargs)
            return original(self, *args, **kwargs)

    kind.evaluate = evaluate


def _is_whole(x: Any, steps: int | None) -> bool:
    distributed = (tf.distribute.DistributedDataset, DatasetCreator)
    return steps is None and x is not None and not isinstance(x, distributed)


def _bring_home(trainer: Any, model: Any, chief: ChiefOnlyStrategy, arguments: dict[str, Any]) -> None:
    """Make the validation data for the chief, once; `fit` has made them for the workers."""
    if isinstance(model._eval_epoch_iterator._distribute_strategy, ChiefOnlyStrategy):
        return
    model._eval_epoch_iterator = trainer.TFEpochIterator(
        x=arguments.get("x"),
        y=arguments.get("y"),
        sample_weight=arguments.get("sample_weight"),
        batch_size=arguments.get("batch_size"),
        distribute_strategy=chief,
        steps_per_execution=model.steps_per_execution,
        shuffle=False,
    )


def _repair_predict(kind: Any) -> None:
    """Predict on the chief, as in tf_keras: the order of outputs is that of the examples."""
    for name in ("predict", "predict_on_batch"):
        setattr(kind, name, _at_the_chief(getattr(kind, name)))


def _at_the_chief(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_servers(self._distribute_strategy):
            return original(self, *args, **kwargs)
        with on_the_chief(self):
            return original(self, *args, **kwargs)

    return method
