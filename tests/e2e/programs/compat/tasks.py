"""Usual requests to Keras, one function each, on the same small data whatever the strategy.

Each takes a `Problem` and returns numbers that one device and every strategy must agree on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

keras = tf.keras
EXAMPLES, FEATURES, CLASSES, BATCH = 320, 8, 4, 32


class Problem:
    """Data, and a model whose weights are always the same at first."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        random = np.random.default_rng(7)
        self.x = random.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
        self.y = self.x[:, :CLASSES].argmax(axis=1)
        self.initial = [
            random.normal(scale=0.3, size=shape).astype(np.float32)
            for shape in ((FEATURES, 16), (16,), (16, CLASSES), (CLASSES,))
        ]

    def model(
        self, optimizer: Callable[[], Any] = lambda: keras.optimizers.Adam(0.01), **compile_arguments: Any
    ) -> Any:
        with self.strategy.scope():
            model = keras.Sequential(
                [keras.Input((FEATURES,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(CLASSES)]
            )
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(optimizer(), loss, metrics=["accuracy"], **compile_arguments)
        model.set_weights(self.initial)
        return model

    def data(self, policy: str = "DATA", labels: bool = True) -> tf.data.Dataset:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[policy]
        arrays = (self.x, self.y) if labels else self.x
        return tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH).with_options(options)

    def part(self, context: tf.distribute.InputContext) -> tf.data.Dataset:
        """Return one input pipeline's part of the data, in batches for one replica."""
        batches = tf.data.Dataset.from_tensor_slices((self.x, self.y)).batch(context.get_per_replica_batch_size(BATCH))
        return batches.shard(context.num_input_pipelines, context.input_pipeline_id)


def run(problem: Problem, tasks: dict[str, Callable[[Problem], Any]], names: list[str]) -> None:
    """Run the named tasks, all by default, and print the outcome of each as one line."""
    for name in names or tasks:
        try:
            print("came", json.dumps([name, (tasks | LONG)[name](problem)]), flush=True)
        except Exception as error:
            traceback.print_exc()
            print("failed", json.dumps([name, f"{type(error).__name__}: {error}"[:2000]]), flush=True)


def weights(model: Any) -> list[float]:
    """Return sum and sum of squares of all weights: enough to see whether two trainings have the same result."""
    values = np.concatenate([weight.ravel() for weight in model.get_weights()])
    return [float(values.sum()), float((values**2).sum())]


def losses(history: Any) -> list[float]:
    return [float(value) for name in sorted(history.history) for value in history.history[name]]


def fit(problem: Problem) -> Any:
    model = problem.model()
    return losses(model.fit(problem.data(), epochs=3, verbose=2)) + weights(model)


def fit_arrays(problem: Problem) -> Any:
    model = problem.model()
    history = model.fit(problem.x, problem.y, batch_size=BATCH, epochs=2, shuffle=False, verbose=2)
    return losses(history) + weights(model)


def fit_validation(problem: Problem) -> Any:
    model = problem.model()
    return losses(model.fit(problem.data(), validation_data=problem.data(), epochs=2, verbose=2)) + weights(model)


def fit_steps_per_epoch(problem: Problem) -> Any:
    model = problem.model()
    return losses(model.fit(problem.data().repeat(), epochs=2, steps_per_epoch=5, verbose=2)) + weights(model)


def fit_steps_per_execution(problem: Problem) -> Any:
    """Fit four steps at a time of ten: the last execution is a partial one."""
    model = problem.model(steps_per_execution=4)
    ends = []
    callback = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: ends.append(batch))  # noqa: ARG005
    history = model.fit(problem.data(), epochs=2, validation_data=problem.data(), verbose=2, callbacks=[callback])
    return losses(history) + weights(model) + [int(model.optimizer.iterations.numpy())]


def fit_unbuilt(problem: Problem) -> Any:
    """Fit a model that learns its shapes from the data."""
    with problem.strategy.scope():
        model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(CLASSES)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(problem.data(), epochs=1, verbose=2)
    return [len(model.get_weights()), int(model.optimizer.iterations.numpy())]


def fit_distributed(problem: Problem) -> Any:
    """Fit on a data set that the user distributed, without steps_per_epoch."""
    model = problem.model()
    data = problem.strategy.experimental_distribute_dataset(problem.data())
    return losses(model.fit(data, epochs=2, verbose=2)) + weights(model)


def fit_from_function(problem: Problem) -> Any:
    """Fit on a data set that is distributed from a function."""
    model = problem.model()
    data = problem.strategy.distribute_datasets_from_function(problem.part)
    return losses(model.fit(data, epochs=2, steps_per_epoch=5, verbose=2)) + weights(model)


def fit_creator(problem: Problem) -> Any:
    """Fit on a DatasetCreator, as older books do."""
    model = problem.model()
    data = keras.utils.experimental.DatasetCreator(problem.part)
    return losses(model.fit(data, epochs=2, steps_per_epoch=5, verbose=2)) + weights(model)


def checkpoints(problem: Problem) -> Any:
    """Write ModelCheckpoint's file, which another model loads; use BackupAndRestore."""
    model = problem.model()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.weights.h5"
        callbacks = [
            keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True),
            keras.callbacks.BackupAndRestore(str(Path(folder) / "backup")),
        ]
        model.fit(problem.data(), epochs=2, verbose=2, callbacks=callbacks)
        other = problem.model()
        other.load_weights(str(path))
    return weights(model) + weights(other)


def fit_validation_steps(problem: Problem) -> Any:
    model = problem.model()
    validation = problem.data().repeat()
    history = model.fit(
        problem.data().repeat(),
        epochs=2,
        steps_per_epoch=10,
        validation_data=validation,
        validation_steps=10,
        verbose=2,
    )
    return losses(history) + weights(model) + [int(model.optimizer.iterations.numpy())]


class Batches(keras.utils.Sequence):
    """Batches that Python makes, one by one."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def __len__(self) -> int:
        return EXAMPLES // BATCH

    def __getitem__(self, index: int) -> Any:
        part = slice(index * BATCH, (index + 1) * BATCH)
        return self.problem.x[part], self.problem.y[part]


def fit_sequence(problem: Problem) -> Any:
    """Fit on data that Python makes, evaluate, predict, and fit again."""
    model, data = problem.model(), Batches(problem)
    found = losses(model.fit(data, epochs=2, shuffle=False, verbose=2))
    found += [float(value) for value in model.evaluate(data, verbose=2)]
    found += _predicted(model.predict(data, verbose=2))
    return found + losses(model.fit(data, validation_data=data, shuffle=False, verbose=2)) + weights(model)


def fit_generator(problem: Problem) -> Any:
    """Fit on an endless generator, and evaluate and fit again; then the same by tf.data."""
    model, batches = problem.model(), Batches(problem)

    def forever() -> Any:
        while True:
            yield from (batches[index] for index in range(len(batches)))

    steps, spec = len(batches), tf.nest.map_structure(lambda part: tf.TensorSpec((None, *part.shape[1:])), batches[0])
    found = losses(model.fit(forever(), epochs=2, steps_per_epoch=steps, verbose=2))
    found += [float(value) for value in model.evaluate(forever(), steps=steps, verbose=2)]
    data = tf.data.Dataset.from_generator(forever, output_signature=spec)
    found += losses(model.fit(data, epochs=2, steps_per_epoch=steps, verbose=2))
    return found + losses(model.fit(forever(), epochs=1, steps_per_epoch=steps, verbose=2)) + weights(model)


def fit_batch_logs(problem: Problem) -> Any:
    """Fit with a progress bar and a callback that reads each batch's logs."""
    model = problem.model()
    seen = []
    callback = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(sorted(logs)))  # noqa: ARG005
    model.fit(problem.data(), epochs=2, verbose=1, callbacks=[callback, keras.callbacks.TerminateOnNaN()])
    assert all("loss" in names for names in seen), seen
    return [len(seen), *weights(model)]


def logs_of_batches(problem: Problem) -> Any:
    """Return the losses in the logs of each batch."""
    model, seen = problem.model(), []
    callback = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(float(logs["loss"])))  # noqa: ARG005
    model.fit(problem.data(), epochs=2, verbose=2, callbacks=[callback])
    return seen


def fit_20_seconds(problem: Problem) -> Any:
    """Fit for 20 s although a worker dies meanwhile; return how many of the requested steps are missing."""
    model = problem.model()
    begin = time.monotonic()

    def stop(epoch: int, logs: Any) -> None:  # noqa: ARG001
        model.stop_training = time.monotonic() - begin > 20

    callback = keras.callbacks.LambdaCallback(on_epoch_end=stop)
    history = model.fit(problem.data(), epochs=10_000, verbose=0, callbacks=[callback])
    missing = len(history.epoch) * (EXAMPLES // BATCH) - int(model.optimizer.iterations.numpy())
    return [max(0, missing), float(history.history["loss"][-1])]


def evaluate(problem: Problem) -> Any:
    return [float(value) for value in problem.model().evaluate(problem.data(), verbose=2)]


def evaluate_arrays(problem: Problem) -> Any:
    model = problem.model()
    return [float(value) for value in model.evaluate(problem.x, problem.y, batch_size=BATCH, verbose=2)]


def evaluate_uneven(problem: Problem) -> Any:
    """Evaluate a number of examples that batches and workers do not divide."""
    model = problem.model()
    return [float(v) for v in model.evaluate(problem.x[:299], problem.y[:299], batch_size=BATCH, verbose=2)]


def _predicted(outputs: Any, many: int = EXAMPLES) -> list[float]:
    """Return rows, and sums that change when a row is missing, doubled or out of place."""
    place = np.linspace(1, 2, len(outputs))[:, None]
    return [len(outputs), many, float(outputs.sum()), float((outputs * place).sum())]


def predict_arrays(problem: Problem) -> Any:
    return _predicted(problem.model().predict(problem.x, batch_size=BATCH, verbose=2))


def predict_uneven(problem: Problem) -> Any:
    return _predicted(problem.model().predict(problem.x[:299], batch_size=BATCH, verbose=2))


def predict_dataset(problem: Problem) -> Any:
    return _predicted(problem.model().predict(problem.data(labels=False), verbose=2))


def predict_dataset_off(problem: Problem) -> Any:
    return _predicted(problem.model().predict(problem.data("OFF", labels=False), verbose=2))


def predict_steps_per_execution(problem: Problem) -> Any:
    return _predicted(problem.model(steps_per_execution=3).predict(problem.data(labels=False), verbose=2))


def on_batch(problem: Problem) -> Any:
    """Call train_on_batch, test_on_batch and predict_on_batch, every replica with the whole batch."""
    model = problem.model()
    x, y = problem.x[:BATCH], problem.y[:BATCH]
    found = [float(value) for _ in range(3) for value in model.train_on_batch(x, y)]
    found += [float(value) for value in model.test_on_batch(x, y)]
    return found


def custom_loop(problem: Problem) -> Any:
    """Train in a custom loop whose optimizer has made no variables before its first step."""
    strategy, model = problem.strategy, problem.model()
    with strategy.scope():
        optimizer = keras.optimizers.Adam(0.01)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica_step(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            per_example = loss_of(inputs[1], model(inputs[0], training=True))
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        losses = strategy.run(replica_step, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(problem.data().repeat()))
        found = [float(coordinator.schedule(step, args=(iterator,)).fetch()) for _ in range(EXAMPLES // BATCH)]
    else:
        iterator = iter(strategy.experimental_distribute_dataset(problem.data()))
        found = [float(step(iterator)) for _ in range(EXAMPLES // BATCH)]
    return found + weights(model)


def moving_average(problem: Problem) -> Any:
    """Fit with weights that their moving average overwrites, after some steps and in the end."""
    options = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 4}
    model = problem.model(lambda: keras.optimizers.Adam(0.01, **options))
    return losses(model.fit(problem.data(), epochs=2, verbose=2)) + weights(model)


def clipped(problem: Problem) -> Any:
    """Fit with gradients that are clipped, one by one and all together."""
    found = []
    for options in ({"clipnorm": 0.05}, {"global_clipnorm": 0.05}, {"clipvalue": 0.01}):
        model = problem.model(lambda options=options: keras.optimizers.SGD(0.5, **options))
        found += losses(model.fit(problem.data(), epochs=2, verbose=2)) + weights(model)
    return found


def accumulated(problem: Problem) -> Any:
    """Fit with the mean gradients of four batches, of ten: the last two batches change nothing yet."""
    found = []
    for options in (
        {},
        {
            "weight_decay": 0.1,
            "global_clipnorm": 0.05,
            "use_ema": True,
            "ema_momentum": 0.8,
            "ema_overwrite_frequency": 2,
        },
    ):
        model = problem.model(
            lambda options=options: keras.optimizers.SGD(0.5, gradient_accumulation_steps=4, **options)
        )
        found += losses(model.fit(problem.data(), epochs=2, verbose=2)) + weights(model)
    return found


def overflow(problem: Problem) -> Any:
    """Train on a batch in whose second half gradients are not finite: all replicas must leave out that step."""
    with problem.strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.Dense(16, activation="relu", dtype="mixed_float16"),
                keras.layers.Dense(CLASSES, dtype="float32"),
            ]
        )
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.set_weights(problem.initial)
    problem.x[2 * BATCH + BATCH // 2 : 3 * BATCH] = np.inf
    model.fit(problem.data(), epochs=1, verbose=0)
    return weights(model)


TASKS = {
    function.__name__: function
    for function in (
        fit,
        fit_arrays,
        fit_validation,
        fit_steps_per_epoch,
        fit_steps_per_execution,
        fit_unbuilt,
        fit_distributed,
        fit_from_function,
        fit_creator,
        fit_validation_steps,
        fit_sequence,
        fit_generator,
        fit_batch_logs,
        logs_of_batches,
        checkpoints,
        evaluate,
        evaluate_arrays,
        evaluate_uneven,
        predict_arrays,
        predict_uneven,
        predict_dataset,
        predict_dataset_off,
        predict_steps_per_execution,
        on_batch,
        custom_loop,
        moving_average,
        clipped,
        accumulated,
        overflow,
    )
}


def parameter_server(shards: int = 1) -> Any:
    """Make the strategy at the chief; in every other task, serve until it is ended."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "worker" and resolver.task_id == 1 and "SECOND_WORKER_LIVES" in os.environ:
        threading.Timer(float(os.environ["SECOND_WORKER_LIVES"]), os.kill, (os.getpid(), signal.SIGKILL)).start()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol=resolver.rpc_layer or "grpc"
        )
        server.join()
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(shards) if shards > 1 else None
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


LONG = {"fit_20_seconds": fit_20_seconds}


def mirrored() -> Any:
    """Make the strategy with two replicas on one CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


STRATEGIES: dict[str, Callable[[], Any]] = {
    "mirrored": mirrored,
    "parameter_server": parameter_server,
    "parameter_server_sharded": lambda: parameter_server(shards=2),
    "one_device": tf.distribute.get_strategy,
    "multi_worker": lambda: tf.distribute.MultiWorkerMirroredStrategy(),
}

if __name__ == "__main__":
    run(Problem(STRATEGIES[sys.argv[1]]()), TASKS, sys.argv[2:])
