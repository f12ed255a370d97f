"""Training of many layers that ends while the operations of its step are counted; argument: the file of reports."""

import atexit
import os
import sys
import threading
import time

import tensorflow as tf
from tfscale.trainer.measure import measure
from tfscale.trainer.probe.process.step_flops import THREAD

layers = [tf.keras.layers.Dense(8) for _ in range(60)]
model = tf.keras.Sequential([tf.keras.Input((8,)), *layers])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 8)), tf.zeros((64, 8)))).batch(8)


def is_counting() -> bool:
    return any(thread.name == THREAD for thread in threading.enumerate())


# A thread that is left inside of TensorFlow when Python ends aborts the process, but not each time.
atexit.register(lambda: os._exit(6) if is_counting() else None)
with measure(sys.argv[1]):
    ending = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: is_counting() and sys.exit(5))
    end = time.monotonic() + 120
    while time.monotonic() < end:
        model.fit(data, verbose=0, callbacks=[ending])
sys.exit("the operations were not counted")
