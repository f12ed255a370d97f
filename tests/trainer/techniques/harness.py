"""Trainings of two replicas, for the scripts that these tests run in processes of their own."""

from __future__ import annotations

import importlib
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.trainer.training.parts import Parts
from tfscale.trainer.training.training_step import custom_step, fit_model

keras = tf.keras


def strategy(replicas: int = 2) -> tf.distribute.Strategy:
    """Return two workers where TF_CONFIG says so, else logical devices of this CPU."""
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])


def parts(**techniques: str) -> Parts:
    """Techniques by name, each with its text."""
    modules = {name: importlib.import_module(f"tfscale.trainer.techniques.{name}") for name in techniques}
    return Parts([(modules[name], modules[name].parse(text)) for name, text in techniques.items()])


def program(name: str = "digits") -> Any:
    return importlib.import_module(f"tfscale.trainer.programs.{name}")


class Training:
    """One training of a program, from the same weights and with the same batches each time."""

    def __init__(
        self,
        strategy: Any,
        parts: Parts,
        batch: int = 64,
        optimizer: Any = "Adam",
        module: Any = None,
        rate: Any = None,
    ) -> None:
        module = module or program()
        self.strategy, self.parts, self.module = strategy, parts, module
        keras.utils.set_random_seed(1)
        parts.prepare(keras)
        features, labels = module.examples(0)
        self.examples = features, labels
        data = tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(batch, drop_remainder=True)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        self.data = strategy.experimental_distribute_dataset(data.with_options(options))
        with strategy.scope():
            self.model = module.build_model(keras)
            kind = getattr(keras.optimizers, optimizer)
            self.optimizer = parts.optimizer(keras, kind(module.LEARNING_RATE if rate is None else rate))

    def fit(self, steps: int) -> Training:
        with self.strategy.scope():
            model = fit_model(self.model, self.parts)
            model.compile(self.optimizer, self.module.loss(keras), metrics=list(self.module.METRICS))
        made = iter(range(1, steps + 1))
        after = lambda *_, **__: self.parts.after_step(self.strategy, self.model, next(made))  # noqa: E731
        callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=after)] if self.parts.has_after_step else []
        self.history = model.fit(self.data, epochs=1, steps_per_epoch=steps, callbacks=callbacks, verbose=0).history
        return self

    def custom(self, steps: int) -> Training:
        step, iterator = self.step(), iter(self.data)
        self.losses = []
        for number in range(1, steps + 1):
            self.losses.append(float(step(iterator)))
            self.parts.after_step(self.strategy, self.model, number)
        return self

    def step(self) -> Any:
        return custom_step(self.strategy, self.model, self.optimizer, self.module.loss(keras), self.parts)

    @property
    def weights(self) -> np.ndarray:
        """All trainable weights of the first local replica, flat."""
        return np.concatenate([np.ravel(weight.numpy()) for weight in self.model.trainable_variables])

    def loss(self) -> float:
        """Mean loss over all examples, on one device."""
        features, labels = self.examples
        copy = self.module.build_model(keras)
        copy.set_weights(self.model.get_weights())
        each = self.module.loss(keras).call(labels, tf.cast(copy(features, training=False), tf.float32))
        return float(tf.reduce_mean(each))

    def handed(self) -> dict[str, int]:
        """Return the bytes of one step that are handed to collectives."""
        return handed(self.step().get_concrete_function(iter(self.data)))


def handed(function: Any) -> dict[str, int]:
    """Return the bytes by type of collective in a traced function."""
    found: dict[str, int] = defaultdict(int)
    for op in function.graph.get_operations():
        if op.type.startswith("Collective") and "Group" not in op.type:
            found[op.type] += op.inputs[0].shape.num_elements() * op.inputs[0].dtype.size
    return dict(found)


def collectives(function: Any) -> list[str]:
    return [op.type for op in function.graph.get_operations() if re.fullmatch(r"Collective(Reduce|Gather)\w*", op.type)]


def replicas_of(variable: Any) -> list[np.ndarray]:
    """Copies of a variable on the local replicas."""
    variable = variable if isinstance(variable, tf.Variable) else variable.value
    return [copy.numpy() for copy in getattr(variable, "values", [variable])]


def sent() -> int:
    """Return the bytes that went over the loopback of this network namespace."""
    (line,) = [line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:")]
    return int(line.split()[9])
