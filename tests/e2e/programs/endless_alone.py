"""Endless training on one device, which asks for no variable."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.ones((64, 32)), tf.zeros((64,), tf.int32))).repeat()
model.fit(data, steps_per_epoch=10**7, verbose=0)
