"""Bubbles and step times of `pipeline` beside one device, with the sizes of its flags; prints one JSON object.

Configurations take turns, step by step, until each has enough steps in which the stages had their cores to
themselves: the process then has used as much CPU as its passes lasted. Others share this machine.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import tensorflow as tf
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.model_parallelism.schedules import SCHEDULES, measured_bubble
from tfscale.trainer.model_parallelism.stages import run_passes
from tfscale.trainer.programs.standalone.pipeline import batches, build_stages, parse

WANTED, LONGEST = 5, 70
OWN_CORES = 0.97
SIZES = parse(sys.argv[1:])
DEVICES = logical_devices(2)
SINGLE, BOTH = (build_stages(tf.keras, devices, SIZES.layers, SIZES.width) for devices in (DEVICES[:1], DEVICES))
CONFIGURATIONS = [("gpipe", 1, SINGLE), *((name, m, BOTH) for m in (1, 2, 4, 8) for name in SCHEDULES)]
((FEATURES, LABELS),) = batches(SIZES.batch).take(1)


def updates_of(stages):
    @tf.function
    def update():
        for stage in stages:
            stage.update()

    return update


def step(pool, name, m, stages, update):
    """Return seconds of the step, its bubble, and CPU seconds for each second of its passes."""
    orders = [SCHEDULES[name](stage, len(stages), m) for stage in range(len(stages))]
    features, labels = tf.split(FEATURES, m), tf.split(LABELS, m)
    begin, used = time.perf_counter(), time.process_time()
    _, spans = run_passes(pool, stages, orders, features, labels)
    used = time.process_time() - used
    update()
    busy = sum(span.end - span.begin for stage in spans for span in stage)
    return time.perf_counter() - begin, measured_bubble(spans), used / busy


updates = {id(stages): updates_of(stages) for stages in (SINGLE, BOTH)}
found = {(name, m, len(stages)): [] for name, m, stages in CONFIGURATIONS}
began = time.monotonic()
with ThreadPoolExecutor(2) as pool:
    for each in CONFIGURATIONS * 2:  # traces and allocates
        step(pool, *each, updates[id(each[2])])
    while time.monotonic() - began < LONGEST and any(
        sum(own > OWN_CORES for *_, own in steps) < WANTED for steps in found.values()
    ):
        for name, m, stages in CONFIGURATIONS:
            found[name, m, len(stages)].append(step(pool, name, m, stages, updates[id(stages)]))
print(
    json.dumps(
        [
            {
                "schedule": name,
                "micro_batches": m,
                "stages": stages,
                "steps": len(steps),
                "own": len(own := [each for each in steps if each[2] > OWN_CORES]),
                "seconds": median(each[0] for each in own or steps),
                "bubble": median(each[1] for each in own or steps),
                "all_seconds": median(each[0] for each in steps),
                "all_bubble": median(each[1] for each in steps),
            }
            for (name, m, stages), steps in found.items()
        ]
    )
)
