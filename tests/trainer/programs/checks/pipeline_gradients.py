"""Gradients of `pipeline`, with each schedule, beside those of one device; prints one JSON object.

Each configuration needs its own devices, so that the arguments are: stages, micro-batches, schedule, recompute (0, 1).
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
from tfscale.trainer.logical_devices import logical_devices
from tfscale.trainer.pipelining.schedules import SCHEDULES
from tfscale.trainer.pipelining.stages import run_passes
from tfscale.trainer.programs.standalone.pipeline import build_stages

STAGES, MICRO_BATCHES = int(sys.argv[1]), int(sys.argv[2])
DEVICES = logical_devices(STAGES)
RANDOM = np.random.default_rng(3)
FEATURES = tf.constant(RANDOM.normal(size=(48, 64)), tf.float32)
LABELS = tf.constant(RANDOM.integers(0, 10, 48))


def run(stages, micro_batches, schedule):
    orders = [SCHEDULES[schedule](stage, len(stages), micro_batches) for stage in range(len(stages))]
    features, labels = tf.split(FEATURES, micro_batches), tf.split(LABELS, micro_batches)
    with ThreadPoolExecutor(len(stages)) as pool:
        loss, _ = run_passes(pool, stages, orders, features, labels)
    return loss, [np.array(gradient) for stage in stages for gradient in stage.gradients]


stages = build_stages(tf.keras, DEVICES, 4, 128, bool(int(sys.argv[4])))
loss, found = run(stages, MICRO_BATCHES, sys.argv[3])
held = [stage.most_held for stage in stages]
places = [sorted({gradient.device[-5:] for gradient in stage.gradients}) for stage in stages]
single_loss, single = run(build_stages(tf.keras, DEVICES[:1], 4, 128), 1, "gpipe")
differences = [float(abs(a - b).max() / abs(b).max()) for a, b in zip(found, single, strict=True)]
print(
    json.dumps(
        {
            "loss": [loss, single_loss],
            "difference": max(differences),
            "held": held,
            "left": [len(stage.held) for stage in stages],
            "gradients on": places,
        }
    )
)
