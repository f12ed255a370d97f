"""MirroredStrategy: MobileNetV2 is fine-tuned: first a new head on the frozen network, then its last layers, too.

The weights are random here, so that nothing is downloaded; with weights="imagenet" it is the usual recipe.
"""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.keras.utils.set_random_seed(1)

random = np.random.default_rng(1)
labels = np.arange(64) % 2
images = random.uniform(-0.5, 0.5, size=(64, 32, 32, 3)).astype("float32") + (labels[:, None, None, None] - 0.5)
images = images.astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(64, seed=1).batch(16)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    base = tf.keras.applications.MobileNetV2(input_shape=(32, 32, 3), alpha=0.35, include_top=False, weights=None)
    base.trainable = False
    inputs = tf.keras.Input((32, 32, 3))
    features = tf.keras.layers.GlobalAveragePooling2D()(base(inputs, training=False))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.Dropout(0.2)(features)))
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
print("training", len(model.trainable_variables), "variables")
model.fit(dataset, epochs=4, verbose=2)

with strategy.scope():
    base.trainable = True
    for layer in base.layers[:-8]:
        layer.trainable = False
    model.compile(tf.keras.optimizers.Adam(0.001), loss, metrics=["accuracy"])
print("training", len(model.trainable_variables), "variables")
history = model.fit(dataset, epochs=2, verbose=2)
print("final loss", history.history["loss"][-1])
