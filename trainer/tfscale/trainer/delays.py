"""Real delays in a chosen phase of a training step, to show and test what the probe and the console say of them.

A program builds its parts through a `Delays`; where nothing is delayed the parts are plain. The delays are ops of the
graph that sleep: what they hold up is held up for real.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib
from tfscale.trainer.delay import Delay

_PATIENCE = 1.0
"""Seconds that a batch waits to be asked for, so that no pipeline hangs at the end of the data."""


class Delays:
    """The parts of a Keras program, delayed where `due(phase)` says how much now.

    Args:
        keras: the Keras to build for, Keras 3 or tf_keras.
        due: the Delay of a phase at this moment, None for none.
        looped: whether several steps are one execution, so that Python does not see each batch asked for; the
            variables' update stands for it, which the loop asks right after.
    """

    def __init__(self, keras: Any, due: Callable[[str], Delay | None], looped: bool = False) -> None:
        self._keras = keras
        self._due = due
        self._looped = looped
        self._asked = int(looped)
        self._asked_at = 0.0
        self._begun = 0.0
        self._turn = threading.Condition()

    def ask(self) -> None:
        """The next batch is about to be asked for. Loops without the callback of `callback` call it themselves."""
        with self._turn:
            self._asked += 1
            self._asked_at = time.monotonic()
            self._turn.notify_all()

    def pause(self, phase: str) -> None:
        """Delay this thread by what is due in `phase`, at once."""
        if (delay := self._due(phase)) is not None:
            time.sleep(delay.seconds)

    def input(self, batches: tf.data.Dataset, per_step: float = 1.0) -> tf.data.Dataset:
        """The data set, each batch of which is ready only so long after it was asked for.

        A pipeline makes batches ahead; a mere pause while making one would hide behind the step before. `per_step` is
        how many of these batches a step takes: more where replicas draw their own, less where one is split for several.
        """

        def wait(number: Any) -> bool:
            delay = self._due("input")
            if delay is not None:
                with self._turn:
                    self._turn.wait_for(lambda: self._asked > number // per_step, _PATIENCE)
                    ready = self._asked_at + delay.seconds
                time.sleep(max(0.0, ready - time.monotonic()))
            return True

        def after_wait(number: tf.Tensor, batch: Any) -> Any:
            with tf.control_dependencies([tf.numpy_function(wait, [number], tf.bool)]):
                return tf.nest.map_structure(tf.identity, batch)

        return batches.enumerate().map(after_wait)

    def callback(self) -> Any:
        """A Keras callback that delays the host part of each `fit` step."""
        delays = self

        class Host(self._keras.callbacks.Callback):  # type: ignore[misc, name-defined]
            def on_train_batch_begin(self, *_: Any, **__: Any) -> None:
                if not delays._looped:
                    delays.ask()

            def on_train_batch_end(self, *_: Any, **__: Any) -> None:
                delays.pause("host")

        return Host()

    def begin(self) -> Any:
        """A first layer, from which on the time to compute is taken for a Delay with a factor."""
        delays = self

        def now(inputs: Any) -> Any:
            delays._begun = time.monotonic()
            return inputs

        class Begin(self._keras.layers.Layer):  # type: ignore[misc, name-defined]
            def call(self, inputs: tf.Tensor) -> tf.Tensor:
                return tf.ensure_shape(tf.numpy_function(now, [inputs], inputs.dtype), inputs.shape)

            def compute_output_shape(self, input_shape: Any) -> Any:
                return input_shape

        return Begin()

    def gradients(self, gradients: Sequence[Any]) -> list[Any]:
        """The gradients of one replica, the last of which waits for all others and is then delayed (compute)."""
        *others, last = gradients
        replica = _local_replica()
        with tf.control_dependencies(gradients):
            return [*others, self._held(last, lambda: self._pause_compute(replica))]

    def batch(self, inputs: tf.Tensor) -> tf.Tensor:
        """The inputs of one replica, which it begins to compute with after the delay of compute."""
        replica = _local_replica()
        return self._held(inputs, lambda: self._pause_compute(replica))

    def optimizer(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        """An optimizer of `kind` that delays the gradients (compute) and the last variable's update.

        A program that reduces gradients itself, or adds them up, calls `gradients` or `batch` before, and sets
        `reduces = False` on the optimizer.
        """
        delays = self

        class Delayed(kind):  # type: ignore[misc]
            reduces = True

            def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
                gradients, variables = map(list, zip(*grads_and_vars, strict=True))
                self._held_shape = tuple(variables[-1].shape)
                if self.reduces:
                    gradients = delays.gradients(gradients)
                return super().apply_gradients(list(zip(gradients, variables, strict=True)), *args, **kwargs)

            def update_step(self, gradient: tf.Tensor, variable: Any, *rate: Any) -> Any:
                # The two Keras versions hand over different objects for a variable; of its traits both keep the shape.
                if tuple(variable.shape) == self._held_shape and _is_first_copy():
                    gradient = delays._held(gradient, delays._pause_update)
                return super().update_step(gradient, variable, *rate)

        return Delayed(*args, **kwargs)

    def _pause_compute(self, replica: int) -> None:
        delay = self._due("compute")
        if delay is not None and delay.replica in (None, replica):
            taken = time.monotonic() - self._begun
            time.sleep(delay.seconds + (delay.factor - 1) * taken * (delay.factor > 1))

    def _pause_update(self) -> None:
        self.pause("update")
        if self._looped:
            self.ask()

    def _held(self, tensor: tf.Tensor, pause: Callable[[], None]) -> tf.Tensor:
        def hold(value: Any) -> Any:
            pause()
            return value

        # Stateful ops of one graph run one after the other: replicas would wait for each other's delays.
        return tf.ensure_shape(tf.numpy_function(hold, [tensor], tensor.dtype, stateful=False), tensor.shape)


def _is_first_copy() -> bool:
    """Whether, of a variable's copies on several devices, the first is being updated, or the only one."""
    number = distribute_lib.get_update_replica_id()
    return not isinstance(number, int) or number == 0


def _local_replica() -> int:
    """Which of this process's replicas is being traced, or runs."""
    context = tf.distribute.get_replica_context()
    number = int(tf.get_static_value(context.replica_id_in_sync_group))
    return number % len(context.strategy.extended.worker_devices) if number else 0
