"""MirroredStrategy: gradients of four small batches are added up before they are applied."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

ACCUMULATE = 4
random = np.random.default_rng(1)
x = random.normal(size=(3072, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
batch_size = 16 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(3072, seed=1).repeat().batch(batch_size)
dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    optimizer = tf.keras.optimizers.Adam(0.02)
    accumulated = [
        tf.Variable(
            tf.zeros(variable.shape),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
        for variable in model.trainable_variables
    ]


def accumulate_step(inputs):
    features, labels = inputs
    with tf.GradientTape() as tape:
        per_example = loss_object(labels, model(features, training=True))
        loss = tf.nn.compute_average_loss(per_example, global_batch_size=batch_size) / ACCUMULATE
    for total, gradient in zip(accumulated, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(gradient)
    return loss


def apply_step():
    gradients = [tf.convert_to_tensor(total) for total in accumulated]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    for total in accumulated:
        total.assign(tf.zeros_like(total))


@tf.function
def train_step(iterator):
    loss = 0.0
    for _ in range(ACCUMULATE):
        per_replica = strategy.run(accumulate_step, args=(next(iterator),))
        loss += strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)
    strategy.run(apply_step)
    return loss


iterator = iter(dataset)
losses = [float(train_step(iterator)) for _ in range(60)]
print("applied", int(optimizer.iterations.numpy()), "gradients of", ACCUMULATE * batch_size, "examples each")
print("final loss", sum(losses[-10:]) / 10)
