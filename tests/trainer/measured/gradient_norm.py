"""Fit of a model whose training step logs the norm of its gradients, measured; argument: the file to write.

TF_USE_LEGACY_KERAS selects tf_keras.
"""

import sys
from typing import Any

import tensorflow as tf
from tfscale.trainer.measure import measure

keras = tf.keras
loss = keras.losses.MeanSquaredError()


class Logging(keras.Sequential):
    """Model with a training step of its own, whose logs have more than the loss."""

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, Any]:
        inputs, labels = data
        with tf.GradientTape() as tape:
            value = loss(labels, self(inputs, training=True))
        gradients = tape.gradient(value, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": value, "grad_norm": tf.linalg.global_norm(gradients)}


data = tf.data.Dataset.from_tensor_slices((tf.random.normal((64, 8)), tf.zeros((64, 4)))).batch(16)
model = Logging([keras.layers.Dense(4)])
model.compile(keras.optimizers.SGD(0.01), loss)
with measure(sys.argv[1]):
    model.fit(data, epochs=2, verbose=0)
