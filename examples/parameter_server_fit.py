"""ParameterServerStrategy: `fit` with a DatasetCreator, callbacks and validation, as in TensorFlow's tutorial."""

import tempfile

import numpy as np
import tensorflow as tf

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()

variable_partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes=(256 << 10), max_shards=2
)
strategy = tf.distribute.ParameterServerStrategy(cluster_resolver, variable_partitioner=variable_partitioner)


def dataset_fn(input_context):
    random = np.random.default_rng(1)
    x = random.normal(size=(2048, 16)).astype("float32")
    y = x[:, :4].argmax(axis=1)
    batch_size = input_context.get_per_replica_batch_size(64)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2048).repeat()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(batch_size).prefetch(2)


with strategy.scope():
    model = tf.keras.models.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)])
    model.compile(
        tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=10,
    )

with tempfile.TemporaryDirectory() as working_dir:
    callbacks = [
        tf.keras.callbacks.TensorBoard(log_dir=f"{working_dir}/log"),
        tf.keras.callbacks.ModelCheckpoint(filepath=f"{working_dir}/ckpt.weights.h5", save_weights_only=True),
    ]
    history = model.fit(
        tf.keras.utils.experimental.DatasetCreator(dataset_fn),
        epochs=5,
        steps_per_epoch=40,
        validation_data=tf.keras.utils.experimental.DatasetCreator(dataset_fn),
        validation_steps=10,
        callbacks=callbacks,
        verbose=2,
    )
print("steps", int(model.optimizer.iterations.numpy()))
print("validation loss", history.history["val_loss"][-1])
print("final loss", history.history["loss"][-1])
