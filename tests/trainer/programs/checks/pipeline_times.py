"""Bubbles and step times of `pipeline`, with its usual sizes, beside one device; prints one JSON object.

Configurations take turns, step by step, and so do one device and two stages for the ratio of their times. Others share
this machine: a step counts in which the stages had their cores to themselves, so that the process has used as much CPU
as its passes lasted. With fewer than three of these all count, and `own` says how many there were.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import tensorflow as tf
from tfscale.trainer.logical_devices import logical_devices
from tfscale.trainer.pipelining.schedules import SCHEDULES, measured_bubble
from tfscale.trainer.pipelining.stages import run_passes
from tfscale.trainer.programs.standalone.pipeline import batches, build_stages, parse

WANTED, LONGEST = 8, 25
"""Rounds in which all stages had their cores, and seconds after which there need not be as many."""
FEW = 3
OWN_CORES = 0.97
USUAL = parse([])
DEVICES = logical_devices(2)
SINGLE, BOTH = (build_stages(tf.keras, devices, USUAL.layers, USUAL.width) for devices in (DEVICES[:1], DEVICES))
ONE_DEVICE = "gpipe", 1, SINGLE
PIPELINES = [(name, m, BOTH) for m in (1, 2, 4, 8) for name in SCHEDULES]
((FEATURES, LABELS),) = batches(USUAL.batch).take(1)


def updates_of(stages):
    @tf.function
    def update():
        for stage in stages:
            stage.update()

    return update


def step(name, m, stages):
    """Return seconds of the step, its bubble, and CPU seconds for each second of its passes."""
    orders = [SCHEDULES[name](stage, len(stages), m) for stage in range(len(stages))]
    features, labels = tf.split(FEATURES, m), tf.split(LABELS, m)
    begin, used = time.perf_counter(), time.process_time()
    _, spans = run_passes(POOL, stages, orders, features, labels)
    used = time.process_time() - used
    UPDATES[id(stages)]()
    busy = sum(span.end - span.begin for stage in spans for span in stage)
    return time.perf_counter() - begin, measured_bubble(spans), used / busy


def take_turns(configurations):
    """Return rounds, each of one step of each configuration."""
    rounds = []
    until = time.monotonic() + LONGEST
    while time.monotonic() < until and sum(all(map(is_own, each)) for each in rounds) < WANTED:
        rounds.append([step(*configuration) for configuration in configurations])
    return rounds


def is_own(one):
    return one[2] > OWN_CORES


def told(name, m, steps):
    own = [each for each in steps if is_own(each)]
    seconds, bubbles, _ = zip(*(own if len(own) >= FEW else steps), strict=True)
    return {
        "schedule": name,
        "micro_batches": m,
        "steps": len(steps),
        "own": len(own),
        "seconds": median(seconds),
        "bubble": median(bubbles),
    }


def speedup(name):
    """Return the median ratio of the times of one device and two stages, m = 8, in pairs of steps."""
    pairs = take_turns([ONE_DEVICE, (name, 8, BOTH)])
    own = [pair for pair in pairs if all(map(is_own, pair))]
    ratios = [single[0] / both[0] for single, both in (own if len(own) >= FEW else pairs)]
    return {"schedule": name, "pairs": len(pairs), "own": len(own), "speedup": median(ratios)}


UPDATES = {id(stages): updates_of(stages) for stages in (SINGLE, BOTH)}
with ThreadPoolExecutor(2) as POOL:
    for configuration in [ONE_DEVICE, *PIPELINES] * 2:  # traces and allocates
        step(*configuration)
    speedups = [speedup(name) for name in SCHEDULES]
    turns = zip(*take_turns(PIPELINES), strict=True)
pipelines = [told(name, m, steps) for (name, m, _), steps in zip(PIPELINES, turns, strict=True)]
print(json.dumps({"load": os.getloadavg()[0], "speedups": speedups, "pipelines": pipelines}))
