"""Keras's `fit` under MirroredStrategy, on two replicas that share this machine's CPU."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))

random = np.random.RandomState(0)
x = random.randn(6400, 32).astype("float32")
y = x[:, :10].argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(64)
model.fit(dataset, epochs=3, steps_per_epoch=100, verbose=2, validation_data=(x[:640], y[:640]))
