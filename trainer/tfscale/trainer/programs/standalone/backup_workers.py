"""Backup workers, on digits: more gradients are asked for than a step needs, and the first ones are applied.

    tfscale-train run backup-workers --workers 3 --slow worker:2=5x

Training stays synchronous: all gradients of a step are of the same variables. A worker that is late holds up no step;
its gradients are thrown away, and it begins anew with the newest variables. (Chen et al., arXiv:1604.00981)
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
from tfscale.trainer.launch.program_flags import above_0, check_steps, command_line, write_json
from tfscale.trainer.programs import digits
from tfscale.trainer.slow.worker_pause import add_worker_flags, begin_work, check_workers, pause
from tfscale.trainer.training.held_out import evaluate, plain_model

ROLES = {"chief": (None, 1, 1, 1), "worker": ("workers", 3, 1, 64), "ps": ("servers", 1, 1, 64)}
WARM_UP = 5
"""Steps in which workers load the graph, and that are left out of times."""


class Arrivals:
    """Values that workers compute, in the order in which they are there."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[tuple[Any, ...] | Exception] = queue.SimpleQueue()

    def expect(self, step: int, value: Any) -> None:
        """Wait for a value beside all else."""
        # A thread that waits for a worker which is gone must not keep the program from its end.
        threading.Thread(target=self._wait, args=(step, value), daemon=True).start()

    def _wait(self, step: int, value: Any) -> None:
        try:
            self._arrived.put((step, *value.get()))
        except Exception as error:
            self._arrived.put(error)

    def next(self) -> tuple[Any, ...]:
        """Return the step and the value that is there next. Raises what a worker raised instead."""
        arrived = self._arrived.get()
        if isinstance(arrived, Exception):
            raise arrived
        return arrived


def main(words: Sequence[str]) -> None:
    """Serve the chief as a worker or a server, or train as the chief."""
    chosen = parse(words)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    workers = cluster.num_tasks("worker")
    check_workers(chosen.slow, workers)
    chosen.needed = chosen.needed or max(1, workers - 1)
    if chosen.needed > workers:
        raise UsageError(f"--needed {chosen.needed}: from 1 to {workers}, the number of workers")
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(cluster, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
    result = train(chosen, tf.distribute.ParameterServerStrategy(resolver), workers)
    tell(result)
    write_json(chosen, result)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("backup-workers", __doc__)
    add_worker_flags(parser, workers=3, steps=100, slow="worker:2=5x")
    parser.add_argument("--servers", type=above_0, metavar="N", help="tasks that hold the variables; default 1")
    parser.add_argument("--needed", type=above_0, metavar="N", help="gradients of a step; default all workers' but one")
    parser.add_argument(
        "--batch", type=above_0, default=digits.BATCH, metavar="N", help="examples of a worker; default 64"
    )
    chosen = parser.parse_args(words)
    check_steps(chosen, WARM_UP + 1)
    return chosen


def train(chosen: argparse.Namespace, strategy: Any, workers: int) -> dict[str, Any]:
    """Train by steps that apply the first `needed` gradients of all workers."""
    tf.keras.utils.set_random_seed(chosen.seed)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    training, held_out = split(*digits.examples(chosen.seed))
    with strategy.scope():
        model = digits.build_model(tf.keras)
        optimizer = tf.keras.optimizers.Adam(digits.LEARNING_RATE)
        optimizer.build(model.trainable_variables)

    @tf.function  # type: ignore[untyped-decorator]
    def compute(iterator: Any) -> Any:
        def of_worker(features: Any, labels: Any) -> Any:
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            begun, features = begin_work(features)
            with tf.GradientTape() as tape:
                each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(features, training=True))
                loss = tf.reduce_mean(each)
            return worker, loss, pause(chosen.slow, worker, begun, tape.gradient(loss, model.trainable_variables))

        return strategy.run(of_worker, args=next(iterator))

    @tf.function  # type: ignore[untyped-decorator]
    def apply(several: Any) -> None:
        # The strategy reads from which device gradients come: in the chief they would be of none.
        with tf.device("CPU:0"):
            means = [tf.add_n(parts) / len(parts) for parts in zip(*several, strict=True)]
            strategy.run(lambda: optimizer.apply_gradients(zip(means, model.trainable_variables, strict=True)))

    dataset = batches(training, chosen.batch, None)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: dataset(tf.distribute.InputContext())))
    arrivals = Arrivals()
    free, used, late = workers, Counter[int](), Counter[int]()
    losses, ends = [], []
    for step in range(chosen.steps):
        for _ in range(free):
            arrivals.expect(step, coordinator.schedule(compute, args=(iterator,)))
        free, first = 0, list[Any]()
        while len(first) < chosen.needed:
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
        "needed": chosen.needed,
        "steps": chosen.steps,
        "global_batch": chosen.needed * chosen.batch,
        "step_seconds": median(after - before for before, after in pairwise(ends[WARM_UP:])),
        "loss": list(enumerate(losses, 1)),
        "final_loss": fmean(losses[-10:]),
        "accuracy": evaluate(tf.keras, digits, plain_model(tf.keras, digits, model.get_weights()), held_out),
        "gradients": {f"worker:{each}": {"used": used[each], "late": late[each]} for each in range(workers)},
    }


def tell(result: dict[str, Any]) -> None:
    """Print the result."""
    seconds, needed, gradients = result["step_seconds"], result["needed"], result["gradients"]
    print(f"step               {1000 * seconds:.1f} ms, median; the first {needed} of {len(gradients)} gradients")
    print(f"loss               {result['final_loss']:.4f}, mean of the last 10 steps")
    print(f"held out accuracy  {result['accuracy']['accuracy']:.4f}")
    for name, row in gradients.items():
        print(f"{name:<18} {row['used']} gradients applied, {row['late']} too late")
