"""Backup workers, on digits: a step requests more gradients than it needs, and applies the first to arrive.

    tfscale-train run backup-workers --workers 3 --slow worker:2=5x

Training stays synchronous: all gradients of a step are of the same variables. A late worker holds up no step; its
gradients are thrown away, and it begins anew with the newest variables. (Chen et al., arXiv:1604.00981)
"""

from __future__ import annotations

import argparse
import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.input.batches import batches, split
from tfscale.trainer.launch.program_flags import above_0, check_steps, command_line
from tfscale.trainer.programs import digits
from tfscale.trainer.slow.worker_pause import check_workers
from tfscale.trainer.training.paced_digits import (
    accuracy,
    add_server_flags,
    build,
    loss_and_gradients,
    run_on_servers,
)

NEEDS = ("sklearn",)
ROLES = {"chief": (None, 1, 1, 1), "worker": ("workers", 3, 1, 64), "ps": ("servers", 1, 1, 64)}
WARM_UP = 5
"""Steps in which workers load the graph, left out of times."""


class Arrivals:
    """Values that workers compute, in the order of their arrival."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[tuple[Any, ...] | Exception] = queue.SimpleQueue()

    def expect(self, step: int, value: Any) -> None:
        """Wait for one more value."""
        # A thread that waits for a worker which is gone must not keep the program from its end.
        threading.Thread(target=self._wait, args=(step, value), daemon=True).start()

    def _wait(self, step: int, value: Any) -> None:
        try:
            self._arrived.put((step, *value.get()))
        except Exception as error:
            self._arrived.put(error)

    def next(self) -> tuple[Any, ...]:
        """Return the step and the value that arrives next. Raises a worker's error instead."""
        arrived = self._arrived.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived


def main(settings: argparse.Namespace) -> None:
    """Serve the chief as a worker or a server, or train as the chief."""
    run_on_servers(settings, train, show)


def check(settings: argparse.Namespace, workers: int) -> None:
    """Set the number of gradients for a step, if no flag did; check it and the slow workers. Raises UsageError."""
    check_workers(settings.slow, workers)
    settings.needed = settings.needed or max(1, workers - 1)
    if settings.needed > workers:
        raise UsageError(f"--needed {settings.needed}: from 1 to {workers}, the number of workers")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("backup-workers", __doc__)
    add_server_flags(parser, workers=3, steps=100, slow="worker:2=5x", batch="examples of a worker")
    parser.add_argument("--needed", type=above_0, metavar="N", help="gradients of a step; default all workers' but one")
    settings = parser.parse_args(words)
    check_steps(settings, WARM_UP + 1)
    return settings


def train(settings: argparse.Namespace, strategy: Any, workers: int) -> dict[str, Any]:
    """Train by steps that apply the first `needed` gradients of all workers."""
    tf.keras.utils.set_random_seed(settings.seed)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    training, held_out = split(*digits.examples(settings.seed))
    model, optimizer = build(strategy)

    @tf.function  # type: ignore[untyped-decorator]
    def compute(iterator: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            return worker, *loss_and_gradients(model, (features, labels), settings.slow, worker)

        return strategy.run(of_worker, args=next(iterator))

    @tf.function  # type: ignore[untyped-decorator]
    def apply(several: Any) -> None:
        # The strategy reads from which device gradients come: in the chief they would be of none.
        with tf.device("CPU:0"):
            means = [tf.add_n(parts) / len(parts) for parts in zip(*several, strict=True)]
            strategy.run(lambda: optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True)))

    dataset = batches(training, settings.batch, None)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: dataset(tf.distribute.InputContext())))
    arrivals = Arrivals()
    free, used, late = workers, Counter[int](), Counter[int]()
    losses, ends = [], []
    for step in range(settings.steps):
        for _ in range(free):
            arrivals.expect(step, coordinator.schedule(compute, args=(iterator,)))
        free, first = 0, list[Any]()
        while len(first) < settings.needed:
            of_step, worker, loss, gradients = arrivals.next()
            free += 1
            (used if of_step == step else late)[int(worker)] += 1
            if of_step == step:
                first.append((float(loss), gradients))
        apply([gradients for _, gradients in first])
        losses.append(fmean(loss for loss, _ in first))
        ends.append(time.perf_counter())
    for _ in range(workers - free):
        arrivals.next()  # late, and needed by no step
    return {
        "program": "backup-workers",
        "needed": settings.needed,
        "steps": settings.steps,
        "global_batch": settings.needed * settings.batch,
        "step_seconds": median(after - before for before, after in pairwise(ends[WARM_UP:])),
        "loss": list(enumerate(losses, 1)),
        "final_loss": fmean(losses[-10:]),
        "accuracy": accuracy(model, held_out),
        "gradients": {f"worker:{each}": {"used": used[each], "late": late[each]} for each in range(workers)},
    }


def show(result: dict[str, Any]) -> None:
    """Print the result."""
    seconds, needed, gradients = result["step_seconds"], result["needed"], result["gradients"]
    print(f"step               {1000 * seconds:.1f} ms, median; the first {needed} of {len(gradients)} gradients")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 10 steps")
    print(f"held out accuracy  {result['accuracy']['accuracy']:.4f}")
    for name, row in gradients.items():
        print(f"{name:<18} {row['used']} gradients applied, {row['late']} too late")
