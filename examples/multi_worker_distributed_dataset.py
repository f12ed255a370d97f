"""MultiWorkerMirroredStrategy: `fit` on distributed data sets, without steps_per_epoch, and with validation."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
train = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536, seed=1).batch(64).with_options(options)
test = tf.data.Dataset.from_tensor_slices((x[1536:], y[1536:])).batch(64).with_options(options)

with strategy.scope():
    # The model learns its shapes from the first batch.
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(
    strategy.experimental_distribute_dataset(train),
    validation_data=strategy.experimental_distribute_dataset(test),
    epochs=3,
    verbose=2,
)
print("validation accuracy", history.history["val_accuracy"][-1])
print("final loss", history.history["loss"][-1])
