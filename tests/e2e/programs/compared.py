"""A script as people write it, with flags of its own and nothing of tfscale; it can also fail or stand still."""

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch", default="32")
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--room", type=int, help="MiB of memory; the batch takes one for each example")
parser.add_argument("--rate", type=float, help="of learning, noted in the file `rates`")
flags = parser.parse_args()
if flags.batch == "wrong":
    raise ValueError("no batch is called wrong")
if flags.batch == "still":
    time.sleep(1000)
if flags.room:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + flags.room * 2**20, hard))
    held = np.zeros((int(flags.batch), 2**20), "uint8")
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

import tensorflow as tf  # noqa: E402 - what fails before it fails soon

tf.keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(6400, 32)).astype("float32")
y = x[:, :10].argmax(axis=1)
model = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(10, dtype="float32")])
if flags.rate:
    with Path("rates").open("a") as rates:
        print(flags.rate, file=rates)
model.compile(
    tf.keras.optimizers.SGD(flags.rate or 0.01), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
pause = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: time.sleep(flags.pause))
model.fit(x, y, batch_size=int(flags.batch), epochs=flags.epochs, callbacks=[pause], verbose=2)
with Path(os.environ.get("SEEN", os.devnull)).open("a") as seen:
    print(model.layers[0].compute_dtype, file=seen)
