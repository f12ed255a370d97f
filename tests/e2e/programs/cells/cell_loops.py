"""Loops of many kinds, each with the same small model and the same injected delays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from cell_blocks import BLOCK, GAP, Blocks
from tfscale.trainer.slow.delays import Delays

BATCH = 32
"""Examples of one replica."""
FEATURES, WIDTH, CLASSES = 64, 512, 10
WORDS, LENGTH, DIMENSIONS = 2000, 64, 64
"""Sizes of the embedding and of its input."""
MICRO_STEPS = 2
EXECUTION = 8
VALIDATION_STEPS, VALIDATION_DELAY = 4, 0.030


class Run:
    """One loop of one process: its parts, with delays in them, and the facts that the probe should report."""

    def __init__(
        self, keras: Any, strategy: Any, again: Callable[[], Any], loop: str, workers: int, index: int
    ) -> None:
        self.keras, self.strategy, self.make_strategy = keras, strategy, again
        self.loop, self.workers, self.delayed = loop, workers, index == workers - 1
        self.periods: dict[str, int] = {}
        self.bytes = 0
        self.examples = self.replicas * BATCH
        self.validations = 0

    @property
    def replicas(self) -> int:
        return self.strategy.num_replicas_in_sync if self.strategy else 1

    @property
    def local_replicas(self) -> int:
        return self.replicas // self.workers

    def scope(self) -> Any:
        return (self.strategy or tf.distribute.get_strategy()).scope()

    def start(self, execution: int = 1, micro_steps: int = 1, sequential: bool = False) -> Delays:
        """Make and return the delays; with `sequential`, local replicas run one after the other."""
        factors = dict.fromkeys(("input", "host", "compute", "replica"), 1.0 / micro_steps)
        if execution > 1:
            self.periods["host"] = execution
            factors["host"] = execution
        if sequential:
            factors["compute"] /= self.local_replicas
        self.micro_steps = micro_steps
        delays = ["input", "host", "compute", "update"]
        delays += ["replica"] * (self.local_replicas > 1)
        delays += ["wire"] * (self.workers > 1 and bool(os.environ.get("CELLS_LINK")))
        # Steps differ from second to second: each delay has steps without it right before and after.
        blocks = [each for delay in delays for each in ("none", delay)] * int(os.environ.get("CELLS_ROUNDS", "1"))
        self.blocks = Blocks(self.loop, [*blocks, "none"], self.delayed, factors)
        self.delays = Delays(self.keras, self.blocks.due, looped=execution > 1)
        self._factors = factors
        return self.delays

    def facts(self) -> dict[str, Any]:
        """Return what the probe should report of the loop."""
        return {
            "bytes": self.bytes,
            "examples": self.examples,
            "replicas": self.replicas,
            "local_replicas": self.local_replicas,
            "strategy": type(self.strategy).__name__ if self.strategy else None,
            "periods": self.periods,
            "validations": self.validations,
            "validation_seconds": VALIDATION_STEPS * VALIDATION_DELAY,
        }

    def plain(self, make: Callable[[int], tf.data.Dataset]) -> tf.data.Dataset:
        """Return a data set of global batches, as given to fit; several workers split each of them."""
        if self.workers > 1:
            # A batch of the pipeline serves several steps, so its delay comes at once for all of them.
            self.periods["input"] = self.workers
            self._factors["input"] *= self.workers
        return as_it_is(self.delays.input(make(self.replicas * BATCH), 1 / self.workers))

    def distributed(self, make: Callable[[int], tf.data.Dataset]) -> Any:
        """Return a data set that the strategy has distributed; a plain one without a strategy."""
        if self.strategy is None:
            return as_it_is(self.delays.input(make(BATCH)))
        if self.workers > 1:
            share = as_it_is(self.delays.input(make(BATCH), self.local_replicas))
            return self.strategy.distribute_datasets_from_function(lambda _: share)
        return self.strategy.experimental_distribute_dataset(as_it_is(self.delays.input(make(self.replicas * BATCH))))

    def on_replicas(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.strategy.run(function, args=args) if self.strategy else function(*args)

    def loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
        return tf.reduce_sum(each) / (self.replicas * BATCH)

    def total(self, value: Any) -> Any:
        """Return the sum over all replicas."""
        return self.strategy.reduce("SUM", value, axis=None) if self.strategy else value

    def steps(self, batches: Any) -> Iterator[Any]:
        """Yield the batches of all blocks, each requested as the delays need it, and followed by the host's delay."""
        iterator = iter(batches)
        for _ in range(self.blocks.steps):
            self.blocks.advance()
            for _ in range(self.micro_steps):
                self.delays.ask()
                yield next(iterator)
                self.delays.pause("host")
        self.blocks.finish()


def images(batch: int) -> tf.data.Dataset:
    random = np.random.RandomState(0)
    x = random.randn(batch, FEATURES).astype("float32")
    return tf.data.Dataset.from_tensors((x, x[:, :CLASSES].argmax(axis=1))).repeat()


def texts(batch: int) -> tf.data.Dataset:
    x = np.random.RandomState(0).randint(0, WORDS, (batch, LENGTH))
    return tf.data.Dataset.from_tensors((x, x[:, 0] % CLASSES)).repeat()


def slow_images(batch: int) -> tf.data.Dataset:
    def wait(number: Any) -> Any:
        time.sleep(VALIDATION_DELAY)
        return number

    def after_wait(x: Any, y: Any) -> Any:
        return x, tf.ensure_shape(tf.numpy_function(wait, [y], y.dtype), y.shape)

    return as_it_is(images(batch).take(VALIDATION_STEPS).map(after_wait))


def as_it_is(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Switch off sharding, and the buffer that TensorFlow adds, which grows until a block's delay is hidden in it."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def elements(model: Any) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def classifier(run: Run, between: Callable[[], list[Any]] = list) -> Any:
    layers = run.keras.layers
    dense = [layers.Dense(WIDTH, activation="relu"), *between(), layers.Dense(WIDTH, activation="relu")]
    return run.keras.Sequential([run.keras.Input((FEATURES,)), *dense, layers.Dense(CLASSES, dtype="float32")])


def reader(run: Run) -> Any:
    layers = run.keras.layers
    embedding = [layers.Embedding(WORDS, DIMENSIONS), layers.GlobalAveragePooling1D()]
    return run.keras.Sequential([run.keras.Input((LENGTH,), dtype="int64"), *embedding, layers.Dense(CLASSES)])


def fit(
    run: Run,
    make: Callable[[Run], Any] = classifier,
    batches: Callable[[Run], Any] = lambda run: run.plain(images),
    execution: int = 1,
    validate: bool = False,
) -> Any:
    """Train by `model.fit`, in one epoch or, with validation, in one a block."""
    delays = run.start(execution)
    data = batches(run)
    keras = run.keras
    with run.scope():
        model = make(run)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(delays.optimizer(keras.optimizers.SGD, 0.01), loss, steps_per_execution=execution)

    class Advance(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, *_: Any, **__: Any) -> None:
            run.blocks.advance(execution)

    # Epochs end amid blocks, so that their validation falls between steps that are looked at.
    per_epoch = GAP + BLOCK if validate else run.blocks.steps
    epochs = -(-run.blocks.steps // per_epoch)
    run.validations = epochs * validate
    steps = {"epochs": epochs, "steps_per_epoch": per_epoch}
    validation = {"validation_data": slow_images(run.replicas * BATCH), "validation_steps": VALIDATION_STEPS}
    model.fit(data, **steps, **(validation if validate else {}), callbacks=[Advance(), *delays.callbacks()], verbose=0)
    run.blocks.finish()
    run.bytes = 4 * elements(model)
    return model


def fit_mixed(run: Run) -> None:
    policies = run.keras.mixed_precision
    policies.set_global_policy("mixed_bfloat16")
    try:
        fit(run)
    finally:
        policies.set_global_policy("float32")


def fit_synchronised(run: Run) -> None:
    fit(run, lambda run: classifier(run, lambda: [run.keras.layers.BatchNormalization(synchronized=True)]))


def fit_sparse(run: Run) -> None:
    fit(run, reader, lambda run: run.plain(texts))
    # Of the embedding's gradient one row and its index travel for each word of the batch.
    run.bytes = BATCH * LENGTH * (4 * DIMENSIONS + 8) + 4 * (DIMENSIONS * CLASSES + CLASSES)


def custom(run: Run, compiled: bool = True) -> None:
    """Train by a GradientTape in `strategy.run`."""
    delays = run.start(sequential=not compiled and run.local_replicas > 1)
    data = run.distributed(images)
    with run.scope():
        model = classifier(run)
        optimizer = delays.optimizer(run.keras.optimizers.SGD, 0.01)

    def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = run.loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    def step(x: Any, y: Any) -> Any:
        return run.total(run.on_replicas(replica_step, x, y))

    step = tf.function(step) if compiled else step
    for x, y in run.steps(data):
        step(x, y)
    run.bytes = 4 * elements(model)


def accumulation(run: Run) -> None:
    """Train by a micro-batch whose gradients stay where they are, then one with which all are reduced."""
    delays = run.start(micro_steps=MICRO_STEPS)
    data = run.distributed(images)
    with run.scope():
        model = classifier(run)
        optimizer = delays.optimizer(run.keras.optimizers.SGD, 0.01)
        optimizer.reduces = False
        sums = [
            tf.Variable(
                tf.zeros(variable.shape),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for variable in model.trainable_variables
        ]

    def add(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = run.loss(y, model(delays.batch(x), training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        for one, gradient in zip(sums, gradients, strict=True):
            one.assign_add(gradient)

    def add_and_apply(x: tf.Tensor, y: tf.Tensor) -> None:
        add(x, y)
        gradients = [one.read_value() for one in sums]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        for one in sums:
            one.assign(tf.zeros_like(one))

    micro_step = tf.function(lambda x, y: run.on_replicas(add, x, y))
    last_step = tf.function(lambda x, y: run.on_replicas(add_and_apply, x, y))
    for number, (x, y) in enumerate(run.steps(data)):
        (last_step if (number + 1) % MICRO_STEPS == 0 else micro_step)(x, y)
    run.bytes = 4 * elements(model)
    run.examples *= MICRO_STEPS


def bfloat16_wire(run: Run) -> None:
    """Train with gradients that are reduced as bfloat16."""
    delays = run.start()
    data = run.distributed(images)
    legacy = hasattr(run.keras.optimizers, "legacy") and run.keras.__name__ == "tf_keras"
    with run.scope():
        model = classifier(run)
        optimizer = delays.optimizer(run.keras.optimizers.SGD, 0.01)
        optimizer.reduces = False
    if not legacy:
        # Keras 3 has no argument for gradients that are reduced already.
        optimizer._all_reduce_sum_gradients = list

    def replica_step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = run.loss(y, model(x, training=True))
        gradients = delays.gradients(tape.gradient(value, model.trainable_variables))
        narrow = [tf.cast(gradient, tf.bfloat16) for gradient in gradients]
        reduced = tf.distribute.get_replica_context().all_reduce("SUM", narrow)
        wide = [tf.cast(gradient, tf.float32) for gradient in reduced]
        aggregated = {"skip_gradients_aggregation": True} if legacy else {}
        optimizer.apply_gradients(zip(wide, model.trainable_variables, strict=True), **aggregated)

    step = tf.function(lambda x, y: run.on_replicas(replica_step, x, y))
    for x, y in run.steps(data):
        step(x, y)
    run.bytes = 2 * elements(model)


def two_models(run: Run) -> None:
    """Train a generator and a critic, each with an optimizer, in one step; the larger critic is delayed."""
    delays = run.start()
    data = run.distributed(images)
    layers, optimizers = run.keras.layers, run.keras.optimizers
    with run.scope():
        hidden = [layers.Dense(FEATURES, activation="relu"), layers.Dense(FEATURES)]
        generator = run.keras.Sequential([run.keras.Input((FEATURES,)), *hidden])
        critic = classifier(run)
        generator_optimizer = optimizers.SGD(0.01)
        critic_optimizer = delays.optimizer(optimizers.SGD, 0.01)

    def replica_step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as generator_tape, tf.GradientTape() as critic_tape:
            made = critic(generator(x, training=True), training=True)
            generator_loss = run.loss(y, made)
            critic_loss = run.loss(y, critic(x, training=True)) - generator_loss
        forged = generator_tape.gradient(generator_loss, generator.trainable_variables)
        judged = critic_tape.gradient(critic_loss, critic.trainable_variables)
        generator_optimizer.apply_gradients(zip(forged, generator.trainable_variables, strict=True))
        critic_optimizer.apply_gradients(zip(judged, critic.trainable_variables, strict=True))

    step = tf.function(lambda x, y: run.on_replicas(replica_step, x, y))
    for x, y in run.steps(data):
        step(x, y)
    run.bytes = 4 * (elements(generator) + elements(critic))


def several(run: Run) -> None:
    """Train a model under the first strategy, then a model under a second strategy."""
    with run.scope():
        first = classifier(run)
        first.compile("sgd", run.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    first.fit(as_it_is(images(run.replicas * BATCH)), steps_per_epoch=8, verbose=0)
    run.strategy = run.make_strategy() or tf.distribute.OneDeviceStrategy("CPU:0")
    # A worker that is ahead would send to collectives that its peer is still taking down.
    time.sleep(1.0)
    fit(run)


LOOPS: dict[str, Callable[[Run], Any]] = {
    "fit": fit,
    "fit8": lambda run: fit(run, execution=EXECUTION),
    "fit_validation": lambda run: fit(run, validate=True),
    "fit_distributed": lambda run: fit(run, batches=lambda run: run.distributed(images)),
    "custom": custom,
    "eager": lambda run: custom(run, compiled=False),
    "accumulation": accumulation,
    "mixed": fit_mixed,
    "bfloat16_wire": bfloat16_wire,
    "syncbn": fit_synchronised,
    "sparse": fit_sparse,
    "two_models": two_models,
    "several": several,
}
