"""Asynchronous training of digits on parameter servers: the staleness of each update.

    tfscale-train run asynchrony --workers 2 --slow worker:1=3x

A worker pulls the variables, computes gradients and pushes them, at its own pace. Staleness is the number of other
workers' updates between its pull and its push: its gradients are of variables that are as many updates old.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.trainer.input.batches import batches, split
from tfscale.trainer.launch.program_flags import check_steps, command_line
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
ROLES = {"chief": (None, 1, 1, 1), "worker": ("workers", 2, 1, 64), "ps": ("servers", 1, 1, 64)}
WARM_UP = 4
"""Updates for each worker in which it loads the graph: they train, but are not counted."""
ENDLESS = 2**31 - 1


class Update(NamedTuple):
    """One update of the variables."""

    number: int
    """Number of updates that were applied before."""
    worker: int
    staleness: int
    loss: float


def main(settings: argparse.Namespace) -> None:
    """Serve the chief as a worker or a server, or train as the chief."""
    run_on_servers(settings, train, show)


def check(settings: argparse.Namespace, workers: int) -> None:
    """Check the slow workers, and that updates are left after the warm-up. Raises UsageError."""
    check_workers(settings.slow, workers)
    check_steps(settings, WARM_UP * workers)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("asynchrony", __doc__)
    add_server_flags(parser, workers=2, steps=400, slow="worker:1=3x", batch="examples of an update")
    return parser.parse_args(words)


def train(settings: argparse.Namespace, strategy: Any, workers: int) -> dict[str, Any]:
    """Train by updates that the workers take from one queue."""
    tf.keras.utils.set_random_seed(settings.seed)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    training, held_out = split(*digits.examples(settings.seed))
    model, optimizer = build(strategy)
    with strategy.scope():
        count = tf.Variable(0, dtype=tf.int32, trainable=False, name="updates")

    @tf.function  # type: ignore[untyped-decorator]
    def update(iterator: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            pulled = count.read_value()
            with tf.control_dependencies([pulled]):
                loss, gradients = loss_and_gradients(model, (features, labels), settings.slow, worker)
            with tf.control_dependencies(gradients):
                # One op that counts and reads, so that no two updates have the same number.
                number = tf.raw_ops.ResourceCountUpTo(resource=count.handle, limit=ENDLESS, T=tf.int32)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return number, worker, number - pulled, loss

        return strategy.run(of_worker, args=next(iterator))

    def made(steps: int) -> list[Update]:
        scheduled = [coordinator.schedule(update, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        return sorted(Update(*(each.item() for each in value.fetch())) for value in scheduled)

    dataset = batches(training, settings.batch, None)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: dataset(tf.distribute.InputContext())))
    first = made(WARM_UP * workers)
    begin = time.perf_counter()
    updates = made(settings.steps - len(first))
    rate = len(updates) / (time.perf_counter() - begin)
    return {
        "program": "asynchrony",
        "steps": settings.steps,
        "global_batch": settings.batch,
        "steps_per_second": rate,
        "loss": [(each.number + 1, each.loss) for each in first + updates],
        "final_loss": fmean(each.loss for each in (first + updates)[-20:]),
        "accuracy": accuracy(model, held_out),
        "staleness": {f"worker:{worker}": of_worker(updates, worker) for worker in range(workers)},
    }


def show(result: dict[str, Any]) -> None:
    """Print the result."""
    rate = result["steps_per_second"]
    print(f"rate               {rate:.2f} updates/s, {rate * result['global_batch']:.1f} examples/s")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 20 updates")
    print(f"held out accuracy  {result['accuracy']['accuracy']:.4f}")
    print("staleness          updates   mean   by the rates   histogram")
    for name, row in result["staleness"].items():
        mean, expected = ("-" if row[each] is None else f"{row[each]:.2f}" for each in ("mean", "expected"))
        bars = " ".join(f"{stale}:{number}" for stale, number in row["histogram"].items())
        print(f"  {name:<16} {row['updates']:>7} {mean:>6} {expected:>14}   {bars}")


def of_worker(updates: list[Update], worker: int) -> dict[str, Any]:
    """Return the staleness of one worker's updates; `expected` is the others' rate over the worker's own."""
    own = [each.staleness for each in updates if each.worker == worker]
    return {
        "updates": len(own),
        "mean": fmean(own) if own else None,
        "expected": (len(updates) - len(own)) / len(own) if own else None,
        "histogram": dict(sorted(Counter(own).items())),
    }
