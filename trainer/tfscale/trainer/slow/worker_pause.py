"""Pauses on slow workers of programs that schedule their own steps, between a worker's pull and its push.

The sleep is an op, since Python of the graph would run in the chief and hold up all workers.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.launch.program_flags import above_0, seed
from tfscale.trainer.slow.delay import Delay

Slow = tuple[int, Delay]
"""Index of a worker, and its delay in each step."""


def slow_worker(text: str) -> Slow:
    """Read `worker:1=3x` or `worker:1=60ms`; to be the `type` of a flag."""
    match = re.fullmatch(r"worker:(\d+)=([\d.]+(?:x|ms|s))", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a slow worker: write worker:1=3x or worker:1=60ms")
    try:
        return int(match[1]), Delay.parse(match[2])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_worker_flags(parser: argparse.ArgumentParser, workers: int, steps: int, slow: str) -> None:
    """Add the flags of a program whose workers may be slow, with an example."""
    parser.add_argument("--workers", type=above_0, metavar="N", help=f"tasks that compute; default {workers}")
    parser.add_argument("--steps", type=above_0, default=steps, metavar="N", help=f"default {steps}")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of weights and data; default 0")
    parser.add_argument("--slow", action="append", type=slow_worker, default=[], metavar=f"{slow}|60ms")


def check_workers(slow: Sequence[Slow], workers: int) -> None:
    """Check that each slow worker is one of the cluster's `workers` and is given once. Raises UsageError."""
    if missing := [index for index, _ in slow if index >= workers]:
        raise UsageError(f"--slow worker:{missing[0]}: the workers are 0 to {workers - 1}")
    indices = [index for index, _ in slow]
    if twice := [index for index in indices if indices.count(index) > 1]:
        raise UsageError(f"--slow worker:{twice[0]} is given twice")


def begin_work(features: Any) -> tuple[Any, Any]:
    """Return the time (`tf.timestamp`), and the features such that work on them waits for it."""
    begun = tf.timestamp()
    with tf.control_dependencies([begun]):
        return begun, tf.identity(features)


def pause(slow: Sequence[Slow], worker: Any, begun: Any, gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients after the delay of this worker; `begun` is the `tf.timestamp` at which its work began."""
    if not slow:
        return list(gradients)
    with tf.control_dependencies(gradients):
        taken = tf.timestamp() - begun
    seconds = tf.zeros((), tf.float64)
    for index, delay in slow:
        longer = delay.seconds + (delay.factor - 1) * taken
        seconds = tf.where(tf.equal(worker, index), longer, seconds)
    with tf.control_dependencies([_asleep(seconds)]):
        return [tf.identity(gradient) for gradient in gradients]


def _asleep(seconds: Any) -> Any:
    of_numbers = {"output_types": [tf.int64], "output_shapes": [[]]}
    bounds = {name: tf.constant(value, tf.int64) for name, value in (("start", 0), ("stop", 1), ("step", 1))}
    one = tf.raw_ops.RangeDataset(**bounds, **of_numbers)
    # The data set is asked twice, for its element and for its end.
    half = tf.cast(seconds * 5e5, tf.int64)
    sleeping = tf.raw_ops.SleepDataset(input_dataset=one, sleep_microseconds=half, **of_numbers)
    return tf.raw_ops.DatasetToSingleElement(dataset=sleeping, **of_numbers)[0]
