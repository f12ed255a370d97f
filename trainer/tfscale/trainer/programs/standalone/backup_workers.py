"""Backup workers, on digits: more gradients are asked for than a step needs, and the first ones are applied.

Training stays synchronous: all gradients of a step are of the same variables. A worker that is late holds up no step;
its gradients are thrown away, and it begins anew with the newest variables. (Chen et al., arXiv:1604.00981)
"""

from __future__ import annotations

import argparse
import json
import queue
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer.programs.digits import BATCH, LEARNING_RATE, build_model, examples
from tfscale.trainer.worker_pause import check_workers, pause, slow_worker

ROLES = {"chief": (None, 1, 1, 1), "worker": ("workers", 3, 1, 64), "ps": ("servers", 1, 1, 64)}
HELD_OUT = 179
"""Examples that are held out, a tenth of all."""
WARM_UP = 5
"""Steps in which workers load the graph, and that are left out of times."""


def main(words: Sequence[str]) -> None:
    """Serve the chief as a worker or a server, or train as the chief."""
    chosen = parse(words)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    workers = cluster.num_tasks("worker")
    chosen.needed = chosen.needed or max(1, workers - 1)
    fault = check_workers(chosen.slow, workers)
    if not 1 <= chosen.needed <= workers:
        fault = f"--needed {chosen.needed}: from 1 to {workers}, the number of workers"
    if fault:
        raise UsageError(fault)
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(cluster, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
    train(chosen, tf.distribute.ParameterServerStrategy(resolver), workers)


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandLine("tfscale-train run backup-workers", description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, metavar="N", help="tasks that compute, backups included; default 3")
    parser.add_argument("--servers", type=int, metavar="N", help="tasks that hold the variables; default 1")
    parser.add_argument("--needed", type=int, metavar="N", help="gradients of a step; default one less than workers")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="default 100")
    parser.add_argument(
        "--batch", type=int, default=BATCH, metavar="N", help=f"examples of one worker; default {BATCH}"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and data; default 0")
    parser.add_argument("--slow", action="append", type=slow_worker, default=[], metavar="worker:2=5x|60ms")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    return parser.parse_args(words)


def train(chosen: argparse.Namespace, strategy: Any, workers: int) -> None:
    """Train by steps that apply the first `needed` gradients of all workers, and tell the result."""
    tf.keras.utils.set_random_seed(chosen.seed)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    features, labels = examples(chosen.seed)
    with strategy.scope():
        model = build_model(tf.keras)
        optimizer = tf.keras.optimizers.Adam(LEARNING_RATE)
        optimizer.build(model.trainable_variables)

    def dataset() -> Any:
        data = tf.data.Dataset.from_tensor_slices((features[HELD_OUT:], labels[HELD_OUT:]))
        return data.shuffle(len(labels)).repeat().batch(chosen.batch, drop_remainder=True).prefetch(2)

    @tf.function  # type: ignore[untyped-decorator]
    def compute(iterator: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            begun = tf.timestamp()
            with tf.GradientTape() as tape:
                value = loss(labels, model(features, training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            return worker, value, pause(chosen.slow, worker, begun, gradients)

        return strategy.run(of_worker, args=next(iterator))

    @tf.function  # type: ignore[untyped-decorator]
    def apply(several: Any) -> None:
        # The strategy reads from which device gradients come: in the chief they would be of none.
        with tf.device("CPU:0"):
            means = [tf.add_n(parts) / len(parts) for parts in zip(*several, strict=True)]
            strategy.run(lambda: optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True)))

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask(step: int) -> None:
        """Ask a worker that is free for gradients; they are put into `arrived` when they are there."""
        value = coordinator.schedule(compute, args=(iterator,))
        waiting.submit(lambda: arrived.put((step, *value.get())))

    free, used, late = workers, Counter[int](), Counter[int]()
    losses, ends = [], []
    with ThreadPoolExecutor(workers) as waiting:
        for step in range(chosen.steps):
            for _ in range(free):
                ask(step)
            free, first = 0, list[Any]()
            while len(first) < chosen.needed:
                of_step, worker, value, gradients = arrived.get()
                free += 1
                (used if of_step == step else late)[int(worker)] += 1
                if of_step == step:
                    first.append((float(value), gradients))
            apply([gradients for _, gradients in first])
            losses.append(fmean(value for value, _ in first))
            ends.append(time.perf_counter())
    seconds = median(after - before for before, after in zip(ends[WARM_UP:], ends[WARM_UP + 1 :], strict=False))
    alone = build_model(tf.keras)
    alone.set_weights(model.get_weights())
    right = alone.predict(features[:HELD_OUT], verbose=0).argmax(axis=1) == labels[:HELD_OUT]
    tell(chosen, workers, losses, seconds, (used, late), float(right.mean()))


def loss(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def tell(
    chosen: argparse.Namespace,
    workers: int,
    losses: list[float],
    seconds: float,
    gradients: tuple[Counter[int], Counter[int]],
    accuracy: float,
) -> None:
    """Print the result, and write it where a file was named."""
    used, late = gradients
    result = {
        "program": "backup-workers",
        "needed": chosen.needed,
        "steps": chosen.steps,
        "global_batch": chosen.needed * chosen.batch,
        "step_seconds": seconds,
        "loss": list(enumerate(losses, 1)),
        "final_loss": fmean(losses[-10:]),
        "accuracy": {"accuracy": accuracy},
        "gradients": {f"worker:{each}": {"used": used[each], "late": late[each]} for each in range(workers)},
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(f"step               {1000 * seconds:.1f} ms, median; the first {chosen.needed} of {workers} gradients")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 10 steps")
    print(f"held out accuracy  {accuracy:.4f}")
    for name, row in result["gradients"].items():
        print(f"{name:<18} {row['used']} gradients applied, {row['late']} too late")
