"""MirroredStrategy as tutorials of 2019 and 2020 spell a custom loop, with mixed precision and a scaled loss."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

random = np.random.default_rng(1)
x = random.normal(size=(1536, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
GLOBAL_BATCH_SIZE = 32 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1536, seed=1).batch(GLOBAL_BATCH_SIZE)
dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.Sequential(
        [
            tf.keras.Input((16,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(4, dtype="float32"),
        ]
    )
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01))
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy()


def train_step(inputs):
    features, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        loss = tf.nn.compute_average_loss(loss_object(labels, predictions), global_batch_size=GLOBAL_BATCH_SIZE)
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    train_accuracy.update_state(labels, predictions)
    return loss


@tf.function
def distributed_train_step(dataset_inputs):
    losses = strategy.experimental_run_v2(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(4):
    losses = [float(distributed_train_step(batch)) for batch in dataset]
    print(f"Epoch {epoch + 1}: loss {np.mean(losses):.4f}, accuracy {train_accuracy.result().numpy():.4f}")
    train_accuracy.reset_states()
print("final loss", float(np.mean(losses)))
