"""Fit Keras 3 under ParameterServerStrategy on data of Python; from the third epoch on the loss is no number."""

import time

import numpy as np
import tensorflow as tf

EPOCHS, STEPS = 6, 40

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()

keras = tf.keras


class Batches(keras.utils.PyDataset):
    epoch = 0

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        x = np.random.default_rng(index).normal(size=(16, 64)).astype(np.float32)
        return x, np.full((16, 1), np.nan if self.epoch > 2 else x.sum())

    def on_epoch_begin(self):
        self.epoch += 1


class Pause(keras.callbacks.Callback):
    """Pause, so that the probe reports several times in each epoch."""

    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
        time.sleep(0.05)


with tf.distribute.ParameterServerStrategy(resolver).scope():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(Batches(), epochs=EPOCHS, verbose=0, callbacks=[Pause()])
model.evaluate(Batches(), verbose=0)
print("trained", int(model.optimizer.iterations.numpy()), "steps")
