"""ParameterServerStrategy: a custom loop with a ClusterCoordinator, and an embedding sharded over two servers."""

import numpy as np
import tensorflow as tf

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(
    cluster_resolver,
    variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=2048, max_shards=2),
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

VOCABULARY = 64
with strategy.scope():
    embedding = tf.Variable(tf.random.stateless_normal((VOCABULARY, 16), seed=(1, 1), stddev=0.1), name="embedding")
    model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(2)])
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    optimizer = tf.keras.optimizers.Adam(0.01)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def step_fn(iterator):
    def replica_fn(tokens, labels):
        with tf.GradientTape() as tape:
            vectors = tf.reduce_mean(tf.nn.embedding_lookup(embedding, tokens), axis=1)
            predictions = model(vectors, training=True)
            loss = tf.nn.compute_average_loss(loss_object(labels, predictions), global_batch_size=64)
        # Each shard is a variable of its own.
        variables = [*embedding.variables, *model.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        accuracy.update_state(labels, predictions)
        return loss

    losses = strategy.run(replica_fn, args=next(iterator))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def dataset_fn():
    random = np.random.default_rng(1)
    tokens = random.integers(0, VOCABULARY, size=(1024, 4))
    labels = (tokens < VOCABULARY // 2).sum(axis=1) > 2
    return tf.data.Dataset.from_tensor_slices((tokens, labels.astype("int64"))).shuffle(1024).repeat().batch(64)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(lambda _: dataset_fn())


per_worker_iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
print("the embedding has", len(embedding.variables), "shards")
for epoch in range(6):
    accuracy.reset_state()
    values = [coordinator.schedule(step_fn, args=(per_worker_iterator,)) for _ in range(40)]
    coordinator.join()
    loss = float(np.mean([value.fetch() for value in values]))
    print(f"Finished epoch {epoch}, accuracy {accuracy.result().numpy():.3f}, loss {loss:.4f}")
print("final loss", loss)
