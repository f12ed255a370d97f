"""A program that trains by `fit` and logs its loss to a run of MLflow, which nobody else has told it."""

import time

import mlflow
import numpy as np
import tensorflow as tf


class Log(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, _batch, **_logs):
        time.sleep(0.01)

    def on_epoch_end(self, epoch, logs):
        mlflow.log_metric("loss", logs["loss"], step=epoch)


layers = [tf.keras.layers.Input((8,)), tf.keras.layers.Dense(64), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential(layers)
model.compile("sgd", "mse")
examples = np.random.rand(512, 8), np.random.rand(512, 1)
batches = tf.data.Dataset.from_tensor_slices(examples).batch(8)
mlflow.set_experiment("digits")
with mlflow.start_run():
    model.fit(batches, epochs=15, verbose=0, callbacks=[Log()])
