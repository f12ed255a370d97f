"""Training of 40 steps in functions that XLA compiles, on one device.

compiled.py fit|fit8|validation|on_batch|step|nested|by_hand|gradients|eager_gradients|clustered|set_jit

The last two leave it to TensorFlow what XLA compiles: by a variable that is set outside, and by a call.
"""

import sys

import numpy as np
import tensorflow as tf

BATCH, STEPS = 16, 40
loop = sys.argv[1]

if loop == "set_jit":
    tf.config.optimizer.set_jit(True)

import keras  # noqa: E402

x, y = np.ones((BATCH * STEPS, 32), np.float32), np.ones((BATCH * STEPS, 1), np.float32)
model = keras.Sequential([keras.Input((32,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)


@tf.function(jit_compile=True)
def gradients(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    return tape.gradient(loss, model.trainable_variables)


def apply(images, labels):
    optimizer.apply_gradients(zip(gradients(images, labels), model.trainable_variables, strict=True))


@tf.function(jit_compile=True)
def by_hand(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        variable.assign(variable - 0.01 * gradient)


step = tf.function(apply, jit_compile=True)
steps = {
    "step": step,
    "nested": tf.function(lambda images, labels: step(images, labels)),
    "by_hand": by_hand,
    "gradients": tf.function(apply),
    "eager_gradients": apply,
}
if loop in steps:
    for images, labels in tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH):
        steps[loop](images, labels)
else:
    by_keras = loop not in ("clustered", "set_jit")
    model.compile(optimizer, "mse", jit_compile=by_keras, steps_per_execution=8 if loop == "fit8" else 1)
    if loop == "on_batch":
        for _ in range(STEPS):
            model.train_on_batch(x[:BATCH], y[:BATCH])
            model.test_on_batch(x[:BATCH], y[:BATCH])
    else:
        validation = (x, y) if loop == "validation" else None
        model.fit(x, y, batch_size=BATCH, verbose=0, validation_data=validation)
