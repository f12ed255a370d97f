"""Probe's hooks in Keras 3 and Keras 2: into each module right after its import."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.core.records.probe_status import ActivityKind
from tfscale.trainer import tf_internals
from tfscale.trainer.feature import Feature
from tfscale.trainer.probe.graph.distribution import distribution_of
from tfscale.trainer.probe.graph.recorder import Recorder
from tfscale.trainer.probe.hooks.patches import Method, Patches
from tfscale.trainer.probe.process.activities import CHECKPOINT, EVALUATION, Activities
from tfscale.trainer.probe.report.progress import Progress, plain
from tfscale.trainer.probe.rows.spans import Counter


class KerasHooks:
    """Hooks for each of Keras's modules."""

    def __init__(self, patches: Patches, recorder: Recorder, activities: Activities, progress: Progress) -> None:
        self._patches = patches
        self._recorder = recorder
        self._activities = activities
        self._progress = progress
        self._counters: weakref.WeakKeyDictionary[Any, Counter] = weakref.WeakKeyDictionary()
        optimizers = (tf_internals.OPTIMIZER, *tf_internals.OPTIMIZER_KERAS_2, *tf_internals.LEGACY_OPTIMIZER_KERAS_2)
        self._hooks: dict[Feature, Callable[[Feature], dict[str, Method]]] = {
            **dict.fromkeys(optimizers, self._optimizer),
            **dict.fromkeys((tf_internals.CALLBACKS, *tf_internals.CALLBACKS_KERAS_2), self._callbacks),
            **dict.fromkeys((tf_internals.HISTORY, *tf_internals.HISTORY_KERAS_2), self._history),
            **dict.fromkeys((tf_internals.MODEL, *tf_internals.MODEL_KERAS_2), self._model),
        }

    def install(self, module: str) -> None:
        """Put the hooks into a module that has just been imported; most need none."""
        for feature, hooks in self._hooks.items():
            if feature.is_due(module) and tf_internals.applies(feature):
                self._patches.put(feature, hooks(feature))

    def _optimizer(self, feature: Feature) -> dict[str, Method]:
        """Return a hook that makes an optimizer applied outside of `Strategy.run` a run by itself."""
        recorder = self._recorder
        path = feature.names[0].path

        def apply(method: Method, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not tf.compat.v1.executing_eagerly_outside_functions():
                # A graph of TensorFlow 1, whose session runs it unseen.
                recorder.note_training()
                return method(optimizer, *args, **kwargs)

            def call() -> Any:
                with recorder.switch.own_work():
                    recorder.note_applied(self._counter(optimizer))
                return method(optimizer, *args, **kwargs)

            return recorder.run(call, distribution_of(tf.distribute.get_strategy()), path, standalone=True)

        return {path: apply}

    def _counter(self, optimizer: Any) -> Counter:
        counter = self._counters.get(optimizer)
        if counter is None:
            with tf.init_scope():
                counter = Counter(int(np.asarray(plain(optimizer.iterations))))
            self._counters[optimizer] = counter
        return counter

    def _callbacks(self, _: Feature) -> dict[str, Method]:
        progress = self._progress

        def epoch_begin(method: Method, callbacks: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
            progress.epoch_begun(int(epoch), getattr(callbacks, "params", None))
            return method(callbacks, epoch, *args, **kwargs)

        def batch_end(method: Method, callbacks: Any, batch: Any, logs: Any = None, *args: Any, **kwargs: Any) -> Any:
            progress.batch_ended(batch, logs, getattr(callbacks, "model", None))
            return method(callbacks, batch, logs, *args, **kwargs)

        def train_end(method: Method, *args: Any, **kwargs: Any) -> Any:
            progress.ended()
            return method(*args, **kwargs)

        return {
            "CallbackList.on_epoch_begin": epoch_begin,
            "CallbackList.on_train_batch_end": batch_end,
            "CallbackList.on_train_end": train_end,
        }

    def _history(self, _: Feature) -> dict[str, Method]:
        """Return a hook in the last of the callbacks: its logs are numbers, those of other callbacks among them."""

        def epoch_end(method: Method, history: Any, epoch: int, logs: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._progress.epoch_ended(int(epoch), logs)
            return method(history, epoch, logs, *args, **kwargs)

        return {"History.on_epoch_end": epoch_end}

    def _model(self, _: Feature) -> dict[str, Method]:
        def during(kind: ActivityKind) -> Method:
            def hook(method: Method, *args: Any, **kwargs: Any) -> Any:
                with self._activities.during(kind):
                    return method(*args, **kwargs)

            return hook

        def save(method: Method, *args: Any, **kwargs: Any) -> Any:
            with self._activities.writing():
                return method(*args, **kwargs)

        return {
            "Model.evaluate": during(EVALUATION),
            "Model.predict": during(EVALUATION),
            "Model.save": save,
            "Model.save_weights": save,
            "Model.load_weights": during(CHECKPOINT),
            "Model.export": during(CHECKPOINT),
        }
