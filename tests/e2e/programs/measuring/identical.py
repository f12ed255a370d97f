"""Training of a small model with everything seeded, which prints a digest of its weights; argument: the probe's fault.

none       there is no probe
measured   it writes to a file
full       its disk is full
untraced   it fails while a graph is traced
unread     it fails while it reads
agent      an agent started this process
"""

import contextlib
import hashlib
import os
import sys

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

import numpy as np
import tensorflow as tf

keras = tf.keras
suffers = sys.argv[1]


def fail(*_: object) -> None:
    raise RuntimeError("broken on purpose")


measuring: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
if suffers not in ("none", "agent"):
    from tfscale.trainer.measure import measure
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer
    from tfscale.trainer.probe.steps.assembler import StepAssembler

    measuring = measure("/dev/full" if suffers == "full" else sys.argv[2])
    if suffers == "untraced":
        RowBuffer.write = fail
    if suffers == "unread":
        StepAssembler.feed = fail

keras.utils.set_random_seed(1)
several = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy()
random = np.random.default_rng(1)
images = random.normal(size=(512, 64)).astype(np.float32)
labels = random.integers(0, 10, 512)
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32, drop_remainder=True).repeat()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with measuring:
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    print("begins", flush=True)
    history = model.fit(data.with_options(options), epochs=2, steps_per_epoch=100, verbose=0)
digest = hashlib.sha256(b"".join(np.asarray(weight).tobytes() for weight in model.get_weights())).hexdigest()
print("trained to", digest, history.history["loss"][-1], flush=True)
