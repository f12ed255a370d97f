"""MultiWorkerMirroredStrategy: a custom training loop with a checkpoint that only the chief keeps."""

import tempfile

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
is_chief = resolver.task_type == "chief" or (resolver.task_type == "worker" and resolver.task_id == 0)

PER_WORKER_BATCH_SIZE, STEPS_PER_EPOCH = 32, 24
global_batch_size = PER_WORKER_BATCH_SIZE * strategy.num_replicas_in_sync


def dataset_fn(input_context):
    random = np.random.default_rng(1)
    x = random.normal(size=(2048, 16)).astype("float32")
    y = x[:, :4].argmax(axis=1)
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.shuffle(1024, seed=1).repeat().batch(batch_size)


with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    optimizer = tf.keras.optimizers.Adam(0.01)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    dataset = strategy.distribute_datasets_from_function(dataset_fn)


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        features, labels = inputs
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            per_batch_loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(
                labels, predictions
            )
            loss = tf.nn.compute_average_loss(per_batch_loss, global_batch_size=global_batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        train_accuracy.update_state(labels, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


with tempfile.TemporaryDirectory() as folder:
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, directory=folder, max_to_keep=1)
    iterator = iter(dataset)
    while epoch < 3:
        total_loss = 0.0
        for _ in range(STEPS_PER_EPOCH):
            total_loss += train_step(iterator)
        train_loss = float(total_loss / STEPS_PER_EPOCH)
        print(f"Epoch {int(epoch)}: accuracy {float(train_accuracy.result()):.4f}, loss {train_loss:.4f}")
        train_accuracy.reset_state()
        epoch.assign_add(1)
        path = manager.save()
    print("the chief's checkpoint" if is_chief else "a checkpoint that nobody keeps", path.rpartition("/")[2])
print("final loss", train_loss)
