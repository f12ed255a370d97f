"""MirroredStrategy: Keras's `fit`, with validation, on two replicas that share this machine's CPU."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
print("Number of replicas:", strategy.num_replicas_in_sync)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

train = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536, seed=1).batch(64)
test = tf.data.Dataset.from_tensor_slices((x[1536:], y[1536:])).batch(64)
history = model.fit(train, epochs=3, validation_data=test, verbose=2)
print("validation accuracy", history.history["val_accuracy"][-1])
print("final loss", history.history["loss"][-1])
