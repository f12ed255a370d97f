"""Batch by speed, on digits: each worker's share of the global batch follows its measured speed.

    tfscale-train run batch-by-speed --slow worker:1=2x

For hosts of unequal speed under multi-worker mirrored, where all wait for the slowest in each step. Each worker's
gradients are weighted by its share, so that their sum is the gradient of the global batch for any shares.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.input.batches import split
from tfscale.trainer.launch.program_flags import above_0, check_steps, command_line, write_json
from tfscale.trainer.programs import digits
from tfscale.trainer.slow.worker_pause import add_worker_flags, begin_work, check_workers, pause
from tfscale.trainer.training.paced_digits import accuracy, build

NEEDS = ("sklearn",)
ROLES = {"worker": ("workers", 2, 1, 64)}
EVERY = 10
"""Steps between two new divisions of the batch, by the median speeds in them."""


def main(settings: argparse.Namespace) -> None:
    """Train as one of the workers; worker 0 prints the result."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    workers, worker = resolver.cluster_spec().num_tasks("worker"), resolver.task_id
    result = train(settings, tf.distribute.MultiWorkerMirroredStrategy(resolver), workers, worker)
    if worker == 0:
        show(result)
        write_json(settings, result)


def check(settings: argparse.Namespace, workers: int) -> None:
    """Set the global batch, if no flag did; check it and the slow workers. Raises UsageError."""
    check_workers(settings.slow, workers)
    settings.global_batch = settings.global_batch or digits.BATCH * workers
    if settings.global_batch < workers:
        raise UsageError(f"--global-batch {settings.global_batch}: at least one example for each of {workers} workers")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("batch-by-speed", __doc__)
    add_worker_flags(parser, workers=2, steps=100, slow="worker:1=2x")
    parser.add_argument("--split", choices=("speed", "even"), default="speed", help="default speed")
    parser.add_argument("--global-batch", type=above_0, metavar="N", help="examples of a step; default 64 a worker")
    settings = parser.parse_args(words)
    check_steps(settings, 1)
    return settings


def train(settings: argparse.Namespace, strategy: Any, workers: int, worker: int) -> dict[str, Any]:
    """Train by steps of a global batch, of which each worker computes its share."""
    tf.keras.utils.set_random_seed(settings.seed)
    (features, labels), held_out = split(*digits.examples(settings.seed))
    model, optimizer = build(strategy)

    # All workers draw the same examples, of which each takes its part.
    data = tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(len(labels), settings.seed).repeat()
    iterator = iter(data.batch(settings.global_batch, drop_remainder=True).prefetch(2))
    slow = [(index, delay) for index, delay in settings.slow if index == worker]

    @tf.function  # type: ignore[untyped-decorator]
    def make_step(begin: Any, end: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            begun, features = begin_work(features)
            own = tf.cast(tf.shape(labels)[0], tf.float32)
            with tf.GradientTape() as tape:
                each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(features, training=True))
                # The mean over the own examples by their share; gradients of all workers are added up.
                loss = tf.reduce_sum(each) / settings.global_batch
            gradients = pause(slow, worker, begun, tape.gradient(loss, model.trainable_variables))
            with tf.control_dependencies(gradients):
                speed = own / tf.cast(tf.timestamp() - begun, tf.float32)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            sums = tf.concat([[loss], speed * tf.one_hot(worker, workers)], axis=0)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

        features, labels = next(iterator)
        return strategy.run(of_worker, args=(features[begin:end], labels[begin:end]))

    shares, losses, speeds, ends = share_out(settings.global_batch, [1.0] * workers), [], [], []
    for step in range(settings.steps):
        begin, end = sum(shares[:worker]), sum(shares[: worker + 1])
        # As tensors: the function would be traced anew for each other number of Python.
        loss, *of_all = make_step(tf.constant(begin), tf.constant(end)).numpy().tolist()
        losses.append(loss)
        speeds.append(of_all)
        ends.append(time.perf_counter())
        if settings.split == "speed" and step % EVERY == EVERY - 1 and step + 1 < settings.steps:
            shares = share_out(settings.global_batch, [median(each) for each in zip(*speeds[-EVERY:], strict=True)])
    last = [median(each) for each in zip(*speeds[-EVERY:], strict=True)]
    return {
        "program": "batch-by-speed",
        "split": settings.split,
        "steps": settings.steps,
        "global_batch": settings.global_batch,
        "step_seconds": median(after - before for before, after in pairwise(ends[-EVERY - 1 :])),
        "ideal_seconds": settings.global_batch / sum(last),
        "loss": list(enumerate(losses, 1)),
        "final_loss": fmean(losses[-10:]),
        "accuracy": accuracy(model, held_out),
        "shares": shares,
        "speeds": last,
    }


def share_out(examples: int, speeds: Sequence[float]) -> list[int]:
    """Return each worker's number of examples, in proportion to its speed, at least 1."""
    spare = examples - len(speeds)
    exact = [spare * speed / sum(speeds) for speed in speeds]
    shares = [int(each) for each in exact]
    nearest_to_one_more = sorted(range(len(speeds)), key=lambda worker: shares[worker] - exact[worker])
    for worker in nearest_to_one_more[: spare - sum(shares)]:
        shares[worker] += 1
    return [1 + share for share in shares]


def show(result: dict[str, Any]) -> None:
    """Print the result."""
    seconds, ideal = 1000 * result["step_seconds"], 1000 * result["ideal_seconds"]
    print(f"step               {seconds:.1f} ms; {ideal:.1f} ms if no worker ever waited")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 10 steps")
    print(f"held out accuracy  {result['accuracy']['accuracy']:.4f}")
    for worker, (share, speed) in enumerate(zip(result["shares"], result["speeds"], strict=True)):
        print(f"worker:{worker}           {share} of {result['global_batch']} examples, {speed:.0f} examples/s")
