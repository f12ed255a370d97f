"""ParameterServerStrategy: `fit`, `evaluate` and `predict` with a plain data set."""

import numpy as np
import tensorflow as tf

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
    ).join()

strategy = tf.distribute.experimental.ParameterServerStrategy(cluster_resolver)
random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
train = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536).repeat().batch(64)
test = tf.data.Dataset.from_tensor_slices((x[1536:], y[1536:])).batch(64)

with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    model.compile(
        tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(train, epochs=6, steps_per_epoch=24, verbose=2)
loss, accuracy = model.evaluate(test.repeat(), steps=8)
predicted = model.predict(x[1536:], verbose=0).argmax(axis=1)
print("evaluated: loss", loss, "accuracy", accuracy)
print("predicted: accuracy", float((predicted == y[1536:]).mean()))
print("final loss", history.history["loss"][-1])
