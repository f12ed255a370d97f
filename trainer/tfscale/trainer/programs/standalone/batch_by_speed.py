"""Batch by speed, on digits: each worker's share of the global batch follows its measured speed.

For hosts of unequal speed under multi-worker mirrored, where all wait for the slowest in each step. Each worker's
gradients are weighted by its share, so that their sum is the gradient of the global batch, however it is split.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer.programs.digits import BATCH, LEARNING_RATE, build_model, examples
from tfscale.trainer.worker_pause import check_workers, pause, slow_worker

ROLES = {"worker": ("workers", 2, 1, 64)}
HELD_OUT = 179
"""Examples that are held out, a tenth of all."""
EVERY = 10
"""Steps after which the batch is split anew, by the median speeds in them."""


def main(words: Sequence[str]) -> None:
    """Train as one of the workers."""
    chosen = parse(words)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers, worker = resolver.cluster_spec().num_tasks("worker"), resolver.task_id
    chosen.global_batch = chosen.global_batch or BATCH * workers
    fault = check_workers(chosen.slow, workers)
    if chosen.global_batch < workers:
        fault = f"--global-batch {chosen.global_batch}: at least one example for each of {workers} workers"
    if fault:
        raise UsageError(fault)
    train(chosen, tf.distribute.MultiWorkerMirroredStrategy(resolver), workers, worker)


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandLine("tfscale-train run batch-by-speed", description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, metavar="N", help="default 2")
    parser.add_argument("--split", choices=("speed", "even"), default="speed", help="default speed")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="default 100")
    parser.add_argument("--global-batch", type=int, metavar="N", help=f"examples of a step; default {BATCH} a worker")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and data; default 0")
    parser.add_argument("--slow", action="append", type=slow_worker, default=[], metavar="worker:1=2x|60ms")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    return parser.parse_args(words)


def train(chosen: argparse.Namespace, strategy: Any, workers: int, worker: int) -> None:
    """Train by steps of a global batch, of which each worker computes its share; worker 0 tells the result."""
    tf.keras.utils.set_random_seed(chosen.seed)
    features, labels = examples(chosen.seed)
    slow = [(index, delay) for index, delay in chosen.slow if index == worker]
    with strategy.scope():
        model = build_model(tf.keras)
        optimizer = tf.keras.optimizers.Adam(LEARNING_RATE)
        optimizer.build(model.trainable_variables)

    # All workers draw the same examples, of which each takes its part.
    data = tf.data.Dataset.from_tensor_slices((features[HELD_OUT:], labels[HELD_OUT:]))
    data = data.shuffle(len(labels), chosen.seed).repeat().batch(chosen.global_batch, drop_remainder=True).prefetch(2)

    @tf.function  # type: ignore[untyped-decorator]
    def make_step(iterator: Any, begin: Any, end: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            begun = tf.timestamp()
            own = tf.cast(tf.shape(labels)[0], tf.float32)
            with tf.GradientTape() as tape:
                # A mean over the own examples; gradients of all workers are added up.
                value = loss(labels, model(features, training=True)) * own / chosen.global_batch
            gradients = pause(slow, worker, begun, tape.gradient(value, model.trainable_variables))
            with tf.control_dependencies(gradients):
                speed = own / tf.cast(tf.timestamp() - begun, tf.float32)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            told = tf.concat([[value], speed * tf.one_hot(worker, workers)], axis=0)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, told)

        features, labels = next(iterator)
        return strategy.run(of_worker, args=(features[begin:end], labels[begin:end]))

    iterator = iter(data)
    shares = split(chosen.global_batch, [1.0] * workers)
    losses, speeds, ends = [], [], []
    for step in range(chosen.steps):
        begin, end = sum(shares[:worker]), sum(shares[: worker + 1])
        # As tensors: the function would be traced anew for each other number of Python.
        value, *of_all = make_step(iterator, tf.constant(begin), tf.constant(end)).numpy().tolist()
        losses.append(value)
        speeds.append(of_all)
        ends.append(time.perf_counter())
        if chosen.split == "speed" and step % EVERY == EVERY - 1 and step + 1 < chosen.steps:
            shares = split(chosen.global_batch, [median(each) for each in zip(*speeds[-EVERY:], strict=True)])
    last = [median(each) for each in zip(*speeds[-EVERY:], strict=True)]
    seconds = median(after - before for before, after in zip(ends[-EVERY - 1 :], ends[-EVERY:], strict=False))
    weights = model.get_weights()
    if worker == 0:
        alone = build_model(tf.keras)
        alone.set_weights(weights)
        right = alone.predict(features[:HELD_OUT], verbose=0).argmax(axis=1) == labels[:HELD_OUT]
        tell(chosen, losses, shares, last, seconds, float(right.mean()))


def split(examples: int, speeds: Sequence[float]) -> list[int]:
    """Return each worker's number of examples, in proportion to its speed, at least one."""
    spare = examples - len(speeds)
    exact = [spare * speed / sum(speeds) for speed in speeds]
    shares = [int(each) for each in exact]
    nearest_to_one_more = sorted(range(len(speeds)), key=lambda worker: shares[worker] - exact[worker])
    for worker in nearest_to_one_more[: spare - sum(shares)]:
        shares[worker] += 1
    return [1 + share for share in shares]


def loss(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def tell(
    chosen: argparse.Namespace,
    losses: list[float],
    shares: list[int],
    speeds: list[float],
    seconds: float,
    accuracy: float,
) -> None:
    """Print the result, and write it where a file was named."""
    ideal = chosen.global_batch / sum(speeds)
    result = {
        "program": "batch-by-speed",
        "split": chosen.split,
        "steps": chosen.steps,
        "global_batch": chosen.global_batch,
        "step_seconds": seconds,
        "ideal_seconds": ideal,
        "loss": list(enumerate(losses, 1)),
        "final_loss": fmean(losses[-10:]),
        "accuracy": {"accuracy": accuracy},
        "shares": shares,
        "speeds": speeds,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"step               {1000 * seconds:.1f} ms; {1000 * ideal:.1f} ms if no worker ever waited")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 10 steps")
    print(f"held out accuracy  {accuracy:.4f}")
    for worker, (share, speed) in enumerate(zip(shares, speeds, strict=True)):
        print(f"worker:{worker}           {share} of {chosen.global_batch} examples, {speed:.0f} examples/s")
