"""Endless training of two workers, with a checkpoint every hundred steps."""

import os
import sys

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensors((tf.ones((64, 32)), tf.zeros((64,), tf.int32))).repeat()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
backup = tf.keras.callbacks.BackupAndRestore(f"{sys.argv[1]}/{os.environ['TFSCALE_TASK']}", save_freq=100)
model.fit(data.with_options(options), steps_per_epoch=10**7, callbacks=[backup], verbose=0)
