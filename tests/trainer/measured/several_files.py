"""Training without any agent, each time in another way, and measured; argument: the folder to write to."""

import sys
import time
from pathlib import Path

import tensorflow as tf
from tfscale.trainer.measure import measure, measure_callback

keras = tf.keras
folder = Path(sys.argv[1])
data = tf.data.Dataset.from_tensor_slices((tf.random.normal((256, 8)), tf.zeros(256, tf.int64))).batch(16)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def compiled(rate: float, depth: int = 1) -> keras.Model:
    layers = [keras.layers.Dense(8) for _ in range(depth)]
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(4)])
    model.compile(keras.optimizers.SGD(rate), loss)
    return model


class Trainer(tf.Module):
    """Training step that is exported with its model."""

    def __init__(self) -> None:
        self.weights = tf.Variable(tf.zeros((8, 4)))
        self.optimizer = keras.optimizers.SGD(0.1)
        self.optimizer.build([self.weights])

    @tf.function
    def step(self, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, inputs @ self.weights)
        self.optimizer.apply_gradients([(tape.gradient(value, self.weights), self.weights)])
        return value


compiled(0.1).fit(data, epochs=2, verbose=0, callbacks=[measure_callback(folder / "callback.jsonl")])

with measure("/dev/full"):
    compiled(0.1).fit(data, verbose=0)

with measure(folder / "nan.jsonl"):
    # To trace so many layers is no matter of some milliseconds, which are not told.
    compiled(1e38, depth=20).fit(data, epochs=2, verbose=0, validation_data=data)

# Longer than the probe waits between two looks; and steps that nobody asked to be measured.
time.sleep(1.2)
compiled(0.1).fit(data, verbose=0)

model, optimizer = compiled(0.1), keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)


@tf.function(jit_compile=True)
def whole(inputs: tf.Tensor, labels: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        value = loss(labels, model(inputs))
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


with measure(folder / "xla.jsonl"):
    for batch in data:
        whole(*batch)

trainer = Trainer()
with measure(folder / "export.jsonl"):
    for batch in data:
        trainer.step(*batch)
    tf.saved_model.save(trainer, str(folder / "exported"))
    tf.train.Checkpoint(trainer=trainer).save(str(folder / "checkpoint"))
print("checkpointed", sorted(name for name, _ in tf.train.list_variables(str(folder))))
