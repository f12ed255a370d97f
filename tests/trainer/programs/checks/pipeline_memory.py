"""Memory of one step of `pipeline` by schedule, for 2, 4 and 8 micro-batches; prints one JSON object, in bytes.

The size of a micro-batch stays, so that only what is held grows. TensorFlow counts the bytes of all CPUs together.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor

# The allocator of oneDNN counts; TensorFlow takes it by itself on some processors only.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"

import numpy as np
import tensorflow as tf
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.model_parallelism.schedules import SCHEDULES
from tfscale.trainer.model_parallelism.stages import run_passes
from tfscale.trainer.programs.standalone.pipeline import build_stages

EXAMPLES, LAYERS, WIDTH = 4096, 4, 256
STAGES = build_stages(tf.keras, logical_devices(2), LAYERS, WIDTH)
RANDOM = np.random.default_rng(3)
FEATURES = tf.constant(RANDOM.normal(size=(EXAMPLES, 64)), tf.float32)
LABELS = tf.constant(RANDOM.integers(0, 10, EXAMPLES))


def memory(name):
    """Return bytes in use (`current`), or most since the last reset (`peak`)."""
    return tf.config.experimental.get_memory_info("CPU:0")[name]


def peak(schedule, micro_batches):
    """Return the bytes by which a step exceeds what was in use before it, at most."""
    orders = [SCHEDULES[schedule](stage, 2, micro_batches) for stage in range(2)]
    before = memory("current")
    tf.config.experimental.reset_memory_stats("CPU:0")
    with ThreadPoolExecutor(2) as pool:
        run_passes(pool, STAGES, orders, [FEATURES] * micro_batches, [LABELS] * micro_batches)
    return memory("peak") - before


def held():
    """Return the bytes that each stage holds of one micro-batch, from its forward to its backward pass."""
    found, sent = [], FEATURES
    for stage in STAGES:
        before = memory("current")
        sent = stage.forward(0, sent, LABELS)
        found.append(memory("current") - before)
    gradient = tf.constant(1.0)
    for stage in reversed(STAGES):
        gradient = stage.backward(0, gradient)
    return found


peak("gpipe", 2)  # the first passes trace, and allocate for good
print(json.dumps({"held": held()} | {name: {m: peak(name, m) for m in (2, 4, 8)} for name in SCHEDULES}))
