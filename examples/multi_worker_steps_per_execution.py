"""MultiWorkerMirroredStrategy: eight steps a call, so that small steps lose less to Python; NumPy arrays as data."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

random = np.random.default_rng(1)
x = random.normal(size=(2560, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=8,
    )

# 36 steps an epoch: four executions of eight, and one of four.
history = model.fit(x[:2304], y[:2304], batch_size=64, epochs=3, validation_data=(x[2304:], y[2304:]), verbose=2)
print("steps", int(model.optimizer.iterations.numpy()))
print("final loss", history.history["loss"][-1])
