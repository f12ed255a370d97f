"""Repairs of Keras 3 under MultiWorkerMirroredStrategy.

Seen with Keras 3.15.1 on TensorFlow 2.21.0. Each replaces one step of
Keras's own TensorFlow trainer and leaves the rest.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def repair(trainer: Any) -> None:
    """Put the repairs into the module `keras.src.backend.tensorflow.trainer`."""
    _repair_symbolic_build(trainer)
    _repair_reduce_per_replica(trainer)
    _repair_steps_per_execution(trainer)


def _repair_symbolic_build(trainer: Any) -> None:
    """Keras averages a PerReplica batch eagerly to learn its shapes, which raises; a local part has the same."""

    def maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if self._distribute_strategy is None:
            return

        def first_part(value: Any) -> Any:
            return self.distribute_strategy.experimental_local_results(value)[0]

        if iterator is not None:
            for _, _, batches in iterator:
                data_batch = trainer.tree.map_structure(first_part, next(batches))
                break
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    trainer.TensorFlowTrainer._maybe_symbolic_build = maybe_symbolic_build


def _repair_reduce_per_replica(trainer: Any) -> None:
    """Keras averages scalar metrics over axis 0, which scalars do not have."""
    original = trainer.reduce_per_replica

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean") or not trainer._collective_all_reduce_multi_worker(strategy):
            return original(values, strategy, reduction)

        def mean(value: Any) -> Any:
            rank = strategy.experimental_local_results(value)[0].shape.rank
            return strategy.reduce("MEAN", value, axis=None if rank == 0 else 0)

        return trainer.tree.map_structure(mean, values)

    trainer.reduce_per_replica = reduce_per_replica


def _repair_steps_per_execution(trainer: Any) -> None:
    """Keras loops over Optionals, whose spec is lost under a strategy; a plain loop does the same steps."""
    original = trainer.TensorFlowTrainer._make_function

    def make_function(self: Any, step_function: Any) -> Any:
        if self.steps_per_execution == 1 or self._distribute_strategy is None or self.run_eagerly:
            return original(self, step_function)

        def one_step(data: Any) -> Any:
            outputs = self.distribute_strategy.run(step_function, args=(data,))
            return trainer.reduce_per_replica(outputs, self.distribute_strategy, reduction="auto")

        plain = tf.autograph.experimental.do_not_convert
        traced = tf.function(plain(one_step), reduce_retracing=True, jit_compile=self.jit_compile)
        step = self._autoconvert_optionals(traced)

        def steps(iterator: Any) -> Any:
            _, outputs = tf.while_loop(
                lambda number, _: number < self.steps_per_execution,
                lambda number, _: (number + 1, step(iterator.get_next())),
                (tf.constant(1), step(iterator.get_next())),
                # One at a time: the end of the data, met early, would cancel the step that still runs.
                parallel_iterations=1,
            )
            return outputs

        return tf.function(plain(steps), reduce_retracing=True)

    trainer.TensorFlowTrainer._make_function = make_function
