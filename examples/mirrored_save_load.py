"""MirroredStrategy: a model is saved, loaded again inside the scope, and trained on where it was."""

import tempfile

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

random = np.random.default_rng(1)
x = random.normal(size=(1536, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536, seed=1).batch(64)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(dataset, epochs=3, verbose=2)

with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.keras")
    with strategy.scope():
        restored = tf.keras.models.load_model(f"{folder}/model.keras")
    checkpoint = tf.train.Checkpoint(model=model)
    path = checkpoint.save(f"{folder}/checkpoint")
    with strategy.scope():
        tf.train.Checkpoint(model=restored).restore(path).expect_partial()

np.testing.assert_allclose(model.predict(x, verbose=0), restored.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
history = restored.fit(dataset, epochs=3, verbose=2)
print("trained on from step 72 to step", int(restored.optimizer.iterations.numpy()))
print("final loss", history.history["loss"][-1])
