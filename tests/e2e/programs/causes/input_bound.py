"""Training of workers whose data come slowly: so many ms a batch on each worker, two in store.

input_bound.py STEPS MS MS
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

steps, milliseconds = int(sys.argv[1]), [float(each) for each in sys.argv[2:]]
delay = milliseconds[json.loads(os.environ["TF_CONFIG"])["task"]["index"]] / 1000
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def batches():
    while True:
        time.sleep(delay)
        yield np.ones((8, 16), np.float32), np.ones((8, 1), np.float32)


def dataset(_):
    kinds = tf.TensorSpec((8, 16)), tf.TensorSpec((8, 1))
    return tf.data.Dataset.from_generator(batches, output_signature=kinds).prefetch(2)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(strategy.distribute_datasets_from_function(dataset), steps_per_epoch=steps, verbose=0)
