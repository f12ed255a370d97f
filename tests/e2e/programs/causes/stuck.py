"""Training in which worker 1 hangs after some steps: worker 0 waits for it in the all-reduce."""

import json
import os
import time

import tensorflow as tf

index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()


class HangOnce(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, **_: object) -> None:
        if batch == 20 and index == 1:
            self.hang()

    def hang(self) -> None:
        print("hangs", flush=True)
        time.sleep(600)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensors((tf.zeros((16, 8)), tf.zeros((16, 4)))).repeat()
model.fit(data, steps_per_epoch=100, verbose=0, callbacks=[HangOnce()])
