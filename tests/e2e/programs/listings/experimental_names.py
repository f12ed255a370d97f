# ruff: noqa: ARG005, B905
"""Mixed precision and a custom loop in the names of 2020."""

import numpy as np
import tensorflow as tf

policy = tf.keras.mixed_precision.experimental.Policy("mixed_bfloat16")
tf.keras.mixed_precision.experimental.set_policy(policy)
strategy = tf.distribute.experimental.CentralStorageStrategy()


def make_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input(shape=(8,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(4),
        ]
    )
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


x = np.random.default_rng(1).normal(size=(256, 8)).astype("float32")
y = x[:, :4].argmax(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

data = strategy.experimental_make_numpy_dataset((x, y)).batch(32)
distributed = strategy.experimental_distribute_datasets_from_function(lambda context: data)
with strategy.scope():
    model = make_model()
    optimizer = tf.keras.optimizers.experimental.SGD(tf.keras.experimental.CosineDecay(0.1, 100))
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train_step(inputs):
    def step(features, labels):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(labels, model(features, training=True)), global_batch_size=32)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.reduce("SUM", strategy.experimental_run_v2(step, args=inputs), axis=None)


for batch in distributed:
    loss = train_step(batch)
print("loss", float(loss), tf.keras.mixed_precision.experimental.global_policy().name)
