"""MultiWorkerMirroredStrategy: train, evaluate, predict; every worker gets all predictions, in order."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

random = np.random.default_rng(1)
x = random.normal(size=(1700, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])

# Each worker has its own share of the data: nothing is to be sharded for it.
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
worker, workers = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
own = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shard(workers, worker)
model.fit(own.shuffle(768, seed=1).batch(64).with_options(options), epochs=6, verbose=2)

loss, accuracy = model.evaluate(x, y, batch_size=64, verbose=0)
predicted = model.predict(tf.data.Dataset.from_tensor_slices(x).batch(64).with_options(options), verbose=0)
print("evaluated: accuracy", accuracy)
print("predicted:", predicted.shape, "accuracy", float((predicted.argmax(axis=1) == y).mean()))
assert abs((predicted.argmax(axis=1) == y).mean() - accuracy) < 1e-3
print("final loss", loss)
