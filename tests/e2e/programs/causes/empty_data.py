"""Training on a data set that is empty, as where a pattern matches no file: it ends as if all were well."""

import tensorflow as tf

with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((8, 32)), tf.zeros((8, 10)))).batch(4).take(0)
for x, y in data:
    model.train_on_batch(x, y)
print("done")
