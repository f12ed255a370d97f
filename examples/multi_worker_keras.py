"""MultiWorkerMirroredStrategy: `import keras` beside `tf.keras`, and a mixed precision loop with a scaled loss.

With TF_USE_LEGACY_KERAS=1 `tf.keras` is tf_keras; `keras` is always Keras 3, whose layers only its own models take.
"""

import os

import numpy as np
import tensorflow as tf

if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
    import tf_keras as keras
else:
    import keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.mixed_precision.set_global_policy("mixed_float16")

random = np.random.default_rng(1)
x = random.normal(size=(1536, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((16,)),
            tf.keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(4),
            tf.keras.layers.Activation("linear", dtype="float32"),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536, seed=1).batch(64)
history = model.fit(dataset, epochs=4, verbose=2)
print("optimizer", type(model.optimizer).__name__)
print("final loss", history.history["loss"][-1])
