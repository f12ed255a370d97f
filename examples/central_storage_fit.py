"""CentralStorageStrategy: variables stay on the CPU, replicas compute; Keras's `fit`."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.experimental.CentralStorageStrategy()
print("Number of replicas:", strategy.num_replicas_in_sync)

random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile(
        tf.keras.optimizers.Adam(0.01),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

dataset = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536, seed=1).batch(64)
history = model.fit(dataset, epochs=3, validation_data=(x[1536:], y[1536:]), verbose=2)
print("evaluated", model.evaluate(x[1536:], y[1536:], verbose=0))
print("final loss", history.history["loss"][-1])
