"""Where Keras is touched, Keras 3 and tf_keras alike: each module after it was imported."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribute_lib
from tfscale.trainer.probe.activities import CHECKPOINT, EVALUATION, Activities
from tfscale.trainer.probe.hooks import Method, wrap
from tfscale.trainer.probe.program import program_of
from tfscale.trainer.probe.progress import Progress, plain
from tfscale.trainer.probe.recorder import Recorder
from tfscale.trainer.probe.steps.spans import Counter


class KerasHooks:
    """Knows how to hook into each of Keras's modules, by its name."""

    def __init__(self, recorder: Recorder, activities: Activities, progress: Progress) -> None:
        self._recorder = recorder
        self._activities = activities
        self._progress = progress
        self._counters: weakref.WeakKeyDictionary[Any, Counter] = weakref.WeakKeyDictionary()

    def install(self, module: Any) -> None:
        """Hook into a module that has just been imported."""
        hooks: dict[str, Callable[[Any], None]] = {
            "keras.src.optimizers.base_optimizer": lambda found: self._optimizer(found.BaseOptimizer, "apply"),
            "tf_keras.src.optimizers.optimizer": lambda found: self._optimizer(found.Optimizer, "apply_gradients"),
            "tf_keras.src.optimizers.legacy.optimizer_v2": lambda found: self._optimizer(
                found.OptimizerV2, "apply_gradients"
            ),
            "keras.src.callbacks.callback_list": lambda found: self._callbacks(found.CallbackList),
            "tf_keras.src.callbacks": lambda found: self._callbacks(found.CallbackList),
            "keras.src.models.model": lambda found: self._model(found.Model),
            "tf_keras.src.engine.training": lambda found: self._model(found.Model),
        }
        hooks[module.__name__](module)

    def _optimizer(self, kind: type, name: str) -> None:
        """An optimizer applied outside of `Strategy.run` is a run by itself."""
        recorder = self._recorder

        def apply(method: Method, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            def call() -> Any:
                with recorder.own_work():
                    recorder.applied(self._counter(optimizer))
                return method(optimizer, *args, **kwargs)

            return recorder.run(call, program_of(distribute_lib.get_strategy()), kind.__qualname__, lone=True)

        wrap(kind, name, apply)

    def _counter(self, optimizer: Any) -> Counter | None:
        counter = self._counters.get(optimizer)
        if counter is None:
            with tf.init_scope():
                counter = Counter(int(np.asarray(plain(optimizer.iterations))))
            self._counters[optimizer] = counter
        return counter

    def _callbacks(self, kind: type) -> None:
        progress = self._progress

        def epoch_begin(method: Method, callbacks: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
            progress.epoch_begun(int(epoch))
            return method(callbacks, epoch, *args, **kwargs)

        def batch_end(method: Method, callbacks: Any, batch: Any, logs: Any = None, *args: Any, **kwargs: Any) -> Any:
            progress.batch_ended(logs, callbacks.model if hasattr(callbacks, "model") else callbacks._model)
            return method(callbacks, batch, logs, *args, **kwargs)

        def train_end(method: Method, *args: Any, **kwargs: Any) -> Any:
            progress.ended()
            return method(*args, **kwargs)

        wrap(kind, "on_epoch_begin", epoch_begin)
        wrap(kind, "on_train_batch_end", batch_end)
        wrap(kind, "on_train_end", train_end)

    def _model(self, kind: type) -> None:
        activities = self._activities

        def checkpoint(method: Method, *args: Any, **kwargs: Any) -> Any:
            with activities.during(CHECKPOINT):
                return method(*args, **kwargs)

        def write(method: Method, *args: Any, **kwargs: Any) -> Any:
            with activities.writing():
                return method(*args, **kwargs)

        def evaluate(method: Method, *args: Any, **kwargs: Any) -> Any:
            with activities.during(EVALUATION):
                return method(*args, **kwargs)

        wrap(kind, "evaluate", evaluate)
        wrap(kind, "predict", evaluate)
        for name, hook in (
            ("save", write),
            ("save_weights", write),
            ("load_weights", checkpoint),
            ("export", checkpoint),
        ):
            if hasattr(kind, name):
                wrap(kind, name, hook)
