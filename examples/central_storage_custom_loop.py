"""CentralStorageStrategy: a custom training loop."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.experimental.CentralStorageStrategy()
random = np.random.default_rng(1)
x = random.normal(size=(1536, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
BATCH_SIZE = 64
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536, seed=1).batch(BATCH_SIZE)
dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    optimizer = tf.keras.optimizers.Adam(0.01)


def step(inputs):
    features, labels = inputs
    with tf.GradientTape() as tape:
        per_example = loss_object(labels, model(features, training=True))
        loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH_SIZE)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def train_step(inputs):
    losses = strategy.run(step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(3):
    losses = [float(train_step(batch)) for batch in dataset]
    print(f"Epoch {epoch + 1}: {len(losses)} steps, loss {sum(losses) / len(losses):.4f}")
print("final loss", sum(losses) / len(losses))
