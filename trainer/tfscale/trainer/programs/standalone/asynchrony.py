"""Asynchronous training of digits on parameter servers: the staleness of each update.

A worker pulls the variables, computes gradients and pushes them, at its own pace. Staleness is the number of updates
by others that were applied between its pull and its push: its gradients are of variables that are so many updates old.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer.programs.digits import BATCH, LEARNING_RATE, build_model, examples
from tfscale.trainer.worker_pause import check_workers, pause, slow_worker

ROLES = {"chief": (None, 1, 1, 1), "worker": ("workers", 2, 1, 64), "ps": ("servers", 1, 1, 64)}
HELD_OUT = 179
"""Examples that are held out, a tenth of all."""
ENDLESS = 2**31 - 1


class Update(NamedTuple):
    """One update of the variables."""

    number: int
    """Number of updates that were applied before."""
    worker: int
    staleness: int
    loss: float


def main(words: Sequence[str]) -> None:
    """Serve the chief as a worker or a server, or train as the chief."""
    chosen = parse(words)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    if fault := check_workers(chosen.slow, cluster.num_tasks("worker")):
        raise UsageError(fault)
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(cluster, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
    train(chosen, tf.distribute.ParameterServerStrategy(resolver), cluster.num_tasks("worker"))


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandLine("tfscale-train run asynchrony", description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, metavar="N", help="tasks that compute; default 2")
    parser.add_argument("--servers", type=int, metavar="N", help="tasks that hold the variables; default 1")
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="updates of all workers; default 400")
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N", help=f"examples of an update; default {BATCH}")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and data; default 0")
    parser.add_argument("--slow", action="append", type=slow_worker, default=[], metavar="worker:1=3x|60ms")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    return parser.parse_args(words)


def train(chosen: argparse.Namespace, strategy: Any, workers: int) -> None:
    """Train by updates that the workers take from one queue, and tell the result."""
    tf.keras.utils.set_random_seed(chosen.seed)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    features, labels = examples(chosen.seed)
    with strategy.scope():
        model = build_model(tf.keras)
        optimizer = tf.keras.optimizers.Adam(LEARNING_RATE)
        optimizer.build(model.trainable_variables)
        count = tf.Variable(0, dtype=tf.int32, trainable=False, name="updates")

    @tf.function  # type: ignore[untyped-decorator]
    def update(iterator: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            pulled = count.read_value()
            with tf.control_dependencies([pulled]), tf.GradientTape() as tape:
                begun = tf.timestamp()
                value = loss(labels, model(features, training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            gradients = pause(chosen.slow, worker, begun, gradients)
            with tf.control_dependencies(gradients):
                # One op that counts and reads, so that no two updates have the same number.
                number = tf.raw_ops.ResourceCountUpTo(resource=count.handle, limit=ENDLESS, T=tf.int32)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return number, worker, number - pulled, value

        return strategy.run(of_worker, args=next(iterator))

    def dataset() -> Any:
        data = tf.data.Dataset.from_tensor_slices((features[HELD_OUT:], labels[HELD_OUT:]))
        return data.shuffle(len(labels)).repeat().batch(chosen.batch, drop_remainder=True).prefetch(2)

    def made(steps: int) -> list[Update]:
        scheduled = [coordinator.schedule(update, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        return sorted(Update(*(each.item() for each in value.fetch())) for value in scheduled)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    # In its first updates each worker loads the graph: they are not counted, but they train.
    first = made(4 * workers)
    begin = time.perf_counter()
    updates = made(chosen.steps - len(first))
    seconds = time.perf_counter() - begin
    alone = build_model(tf.keras)
    alone.set_weights(model.get_weights())
    right = alone.predict(features[:HELD_OUT], verbose=0).argmax(axis=1) == labels[:HELD_OUT]
    tell(chosen, workers, first + updates, updates, seconds, float(right.mean()))


def loss(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def tell(
    chosen: argparse.Namespace,
    workers: int,
    everything: list[Update],
    counted: list[Update],
    seconds: float,
    accuracy: float,
) -> None:
    """Print the result, and write it where a file was named."""
    rate = len(counted) / seconds
    result = {
        "program": "asynchrony",
        "steps": chosen.steps,
        "global_batch": chosen.batch,
        "steps_per_second": rate,
        "loss": [(each.number + 1, each.loss) for each in everything],
        "final_loss": fmean(each.loss for each in everything[-20:]),
        "accuracy": {"accuracy": accuracy},
        "staleness": {f"worker:{worker}": of_worker(counted, worker) for worker in range(workers)},
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"rate               {rate:.2f} updates/s, {rate * chosen.batch:.1f} examples/s")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 20 updates")
    print(f"held out accuracy  {accuracy:.4f}")
    print("staleness          updates   mean   by the rates   histogram")
    for name, row in result["staleness"].items():
        bars = " ".join(f"{stale}:{number}" for stale, number in row["histogram"].items())
        print(f"  {name:<16} {row['updates']:>7} {row['mean']:>6.2f} {row['expected']:>14.2f}   {bars}")


def of_worker(updates: list[Update], worker: int) -> dict[str, Any]:
    """Return the staleness of one worker's updates; `expected` is the ratio of the others' rate to its own."""
    own = [each.staleness for each in updates if each.worker == worker]
    return {
        "updates": len(own),
        "mean": fmean(own) if own else None,
        "expected": (len(updates) - len(own)) / len(own) if own else None,
        "histogram": dict(sorted(Counter(own).items())),
    }
