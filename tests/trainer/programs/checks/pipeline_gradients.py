"""Gradients of `pipeline` beside those of one device; prints a JSON array with an object for each case.

Arguments are cases: stages, micro-batches, schedule and recompute (0, 1), as in `2:4:1f1b:0`.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.model_parallelism.schedules import SCHEDULES
from tfscale.trainer.model_parallelism.stages import run_passes
from tfscale.trainer.programs.standalone.pipeline import build_stages

CASES = [
    (int(stages), int(m), schedule, bool(int(last)))
    for stages, m, schedule, last in (case.split(":") for case in sys.argv[1:])
]
DEVICES = logical_devices(max(stages for stages, *_ in CASES))
RANDOM = np.random.default_rng(3)
FEATURES = tf.constant(RANDOM.normal(size=(48, 64)), tf.float32)
LABELS = tf.constant(RANDOM.integers(0, 10, 48))


def run(stages, micro_batches, schedule):
    orders = [SCHEDULES[schedule](stage, len(stages), micro_batches) for stage in range(len(stages))]
    features, labels = tf.split(FEATURES, micro_batches), tf.split(LABELS, micro_batches)
    with ThreadPoolExecutor(len(stages)) as pool:
        loss, _ = run_passes(pool, stages, orders, features, labels)
    return loss, [np.array(gradient) for stage in stages for gradient in stage.gradients]


def measure(count, micro_batches, schedule, recompute):
    stages = build_stages(tf.keras, DEVICES[:count], 4, 128, recompute)
    loss, found = run(stages, micro_batches, schedule)
    return {
        "loss": [loss, single_loss],
        "difference": max(float(abs(a - b).max() / abs(b).max()) for a, b in zip(found, single, strict=True)),
        "held": [stage.most_held for stage in stages],
        "left": [len(stage.held) for stage in stages],
        "gradients on": [sorted({gradient.device[-5:] for gradient in stage.gradients}) for stage in stages],
    }


single_loss, single = run(build_stages(tf.keras, DEVICES[:1], 4, 128), 1, "gpipe")
print(json.dumps([measure(*case) for case in CASES]))
