"""`steps_per_execution` of Keras 3 under any strategy.

Keras 3.15.1 on TensorFlow 2.21.0 loops over Optionals, which lose their spec under a strategy. A plain loop over the
same steps needs none, but it needs the number of steps: an end of the data inside of it would cut off a running step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tfscale.trainer.tf_internals import keras_trainer


class PartialExecution:
    """Iterator for one execution with fewer steps than usual."""

    def __init__(self, iterator: Any, steps: int) -> None:
        self.iterator = iterator
        self.steps = steps

    def __iter__(self) -> PartialExecution:
        return self

    def __next__(self) -> Any:
        return next(self.iterator)


def loop(step: Callable[[Any], Any]) -> Any:
    """Return a traced function of an iterator and a number of steps, with the output of the last step."""

    def steps(iterator: Any, number: Any) -> Any:
        _, outputs = tf.while_loop(
            lambda done, _: done < number,
            lambda done, _: (done + 1, step(iterator.get_next())),
            (tf.constant(1), step(iterator.get_next())),
            parallel_iterations=1,
        )
        return outputs

    return tf.function(tf.autograph.experimental.do_not_convert(steps), reduce_retracing=True)


def each(step: Callable[[Any], Any]) -> Any:
    """Return a traced function of batches that makes a step with each, with the output of the last step."""

    def steps(*batches: Any) -> Any:
        outputs = None
        for batch in batches:
            outputs = step(batch)
        return outputs

    return tf.function(tf.autograph.experimental.do_not_convert(steps), reduce_retracing=True)


def repair(trainer: Any) -> None:
    """Put the repairs into the module `keras.src.backend.tensorflow.trainer`."""
    _repair_last_execution(trainer)
    _repair_loop(trainer)


def _repair_last_execution(trainer: Any) -> None:
    """Report the true number of steps of an execution in which the data end."""
    kind = trainer.TFEpochIterator

    def enumerate_iterator(self: Any) -> Iterator[tuple[int, int, Any]]:
        for begin, end, iterator in super(kind, self)._enumerate_iterator():
            # Keras has counted this execution's steps already.
            beyond = self._steps_seen - self._num_batches if self._num_batches else 0
            partial = beyond > 0 and isinstance(iterator, tf.distribute.DistributedIterator)
            yield begin, end, PartialExecution(iterator, self.steps_per_execution - beyond) if partial else iterator

    kind._enumerate_iterator = enumerate_iterator


def _repair_loop(trainer: Any) -> None:
    kind = keras_trainer()
    original = kind._make_function

    def make_function(self: Any, step_function: Any) -> Any:
        stock = original(self, step_function)
        if self.steps_per_execution == 1 or self._distribute_strategy is None:
            return stock
        if self.run_eagerly:
            return lambda iterator: stock(iterator.iterator if isinstance(iterator, PartialExecution) else iterator)
        steps = loop(one_step(trainer, self, step_function))

        def function(iterator: Any) -> Any:
            if isinstance(iterator, PartialExecution):
                return steps(iterator.iterator, tf.constant(iterator.steps))
            if isinstance(iterator, tf.distribute.DistributedIterator):
                return steps(iterator, tf.constant(self.steps_per_execution))
            return stock(iterator)

        return function

    kind._make_function = make_function


def one_step(trainer: Any, model: Any, step_function: Any) -> Callable[[Any], Any]:
    """Return Keras's own step on one batch of the model's strategy, traced."""

    def step(data: Any) -> Any:
        outputs = model.distribute_strategy.run(step_function, args=(data,))
        return trainer.reduce_per_replica(outputs, model.distribute_strategy, reduction="auto")

    plain = tf.autograph.experimental.do_not_convert(step)
    traced = tf.function(plain, reduce_retracing=True, jit_compile=model.jit_compile)
    converted: Callable[[Any], Any] = model._autoconvert_optionals(traced)
    return converted
