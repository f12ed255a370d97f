"""Real delays in a chosen phase of a training step, to show and test the probe and the console.

A program builds its parts through a `Delays`. The delays are ops of the graph that sleep, so that dependent ops really
wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tfscale.trainer.slow.delay import Delay
from tfscale.trainer.tf_internals import get_update_replica_id

_PATIENCE = 1.0
"""Seconds that a batch waits for its request. The last batches of a pipeline are made ahead and never requested:
with a longer wait the program would hang as long at its end, with a wait below a step's time the delay would be
lost."""


class Delays:
    """Builder of the parts of a Keras program, which are delayed as `due(phase)` returns.

    Args:
        keras: the Keras to build for, Keras 3 or tf_keras.
        due: returns the Delay of a phase at this moment, None for none. Without `due` the parts are as usual.
        looped: whether several steps are one execution, so that Python does not see the request for each batch; the
            update of the variables is taken for it, as the loop asks for the next batch right after.
    """

    def __init__(self, keras: Any, due: Callable[[str], Delay | None] | None, looped: bool = False) -> None:
        self._keras = keras
        self._is_used = due is not None
        self._due = due or (lambda _: None)
        self._looped = looped
        self._asked = int(looped)
        self._asked_at = 0.0
        self._begun = 0.0
        self._turn = threading.Condition()

    def ask(self) -> None:
        """Record that the next batch is about to be requested. Loops without `callback` call it themselves."""
        with self._turn:
            self._asked += 1
            self._asked_at = time.monotonic()
            self._turn.notify_all()

    def pause(self, phase: str) -> None:
        """Delay this thread at once by the delay that is due in `phase`."""
        if (delay := self._due(phase)) is not None:
            time.sleep(delay.seconds)

    def input(self, batches: tf.data.Dataset, per_step: float = 1.0) -> tf.data.Dataset:
        """Return the data set such that each batch is ready only some time after its request.

        A pipeline makes batches ahead, so a pause while making one would be hidden by the step before. `per_step` is
        the number of batches that a step takes: more where replicas draw their own, less where one batch is split.
        """
        if not self._is_used:
            return batches

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

    def callbacks(self) -> list[Any]:
        """Return Keras callbacks that delay the host phase of each `fit` step."""
        delays = self

        class Host(self._keras.callbacks.Callback):  # type: ignore[misc, name-defined]
            def on_train_batch_begin(self, *_: Any, **__: Any) -> None:
                if not delays._looped:
                    delays.ask()

            def on_train_batch_end(self, *_: Any, **__: Any) -> None:
                delays.pause("host")

        return [Host()] if self._is_used else []

    def model(self, model: Any) -> Any:
        """Return the model behind a layer that takes the begin of each replica's computing: a factor counts from it."""
        if not self._is_used:
            return model
        delays = self

        def now(inputs: Any) -> Any:
            delays._begun = time.monotonic()
            return inputs

        class Begin(self._keras.layers.Layer):  # type: ignore[misc, name-defined]
            def call(self, inputs: tf.Tensor) -> tf.Tensor:
                return tf.ensure_shape(tf.numpy_function(now, [inputs], inputs.dtype), inputs.shape)

            def compute_output_shape(self, input_shape: Any) -> Any:
                return input_shape

        (inputs,) = model.inputs
        features = self._keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        return self._keras.Model(features, model(Begin()(features)))

    def gradients(self, gradients: Sequence[Any]) -> list[Any]:
        """Return one replica's gradients; the last gradient waits for all others and is then delayed (compute)."""
        *others, last = gradients
        replica = _local_replica()
        with tf.control_dependencies(gradients):
            return [*others, self._held(last, lambda: self._pause_compute(replica))]

    def batch(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the inputs of one replica, delayed before it begins to compute (compute)."""
        replica = _local_replica()
        return self._held(inputs, lambda: self._pause_compute(replica))

    def optimizer(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        """Return an optimizer of `kind` that delays the gradients (compute) and the last variable's update.

        A program that reduces gradients itself, or adds them up, calls `gradients` or `batch` before, and sets
        `reduces = False` on the optimizer.
        """
        if not self._is_used:
            return kind(*args, **kwargs)
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
                # The two Keras versions pass different objects for a variable; only its shape is the same in both.
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
    """Return whether this copy of a variable, during its update, is the first on this process's devices."""
    number = get_update_replica_id()
    return not isinstance(number, int) or number == 0


def _local_replica() -> int:
    """Return the index within this process of the replica that is being traced or run."""
    context = tf.distribute.get_replica_context()
    number = int(tf.get_static_value(context.replica_id_in_sync_group))
    return number % len(context.strategy.extended.worker_devices) if number else 0
