"""MirroredStrategy: mixed precision with `fit`; Keras scales the loss by itself under the mixed_float16 policy."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.keras.mixed_precision.set_global_policy("mixed_float16")

random = np.random.default_rng(1)
x = random.normal(size=(1536, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((16,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(4),
            # The loss is computed in float32.
            tf.keras.layers.Activation("linear", dtype="float32"),
        ]
    )
    model.compile(
        optimizer=tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01)),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536, seed=1).batch(64)
history = model.fit(dataset, epochs=4, verbose=2)
print("computes in", model.layers[0].compute_dtype, "keeps variables in", model.layers[0].kernel.dtype)
print("final loss", history.history["loss"][-1])
