"""The steps that scripts/bench_probe.py compares: started by an agent, writes what it measured to the file it is given.

Steps with the probe and without it are two copies of one model, traced one after the other, the second while the
probe's recorder is paused. Blocks of both alternate (A B, B A, ...) in one process, so that both meet the same noise;
several workers alternate in lock-step, since each block's collectives hold them together. Steps run in a loop inside
the graph. Those of 20 and 100 ms spin for most of that time, on the clock, in both copies: a computation of that
length would vary by more than is to be measured. What the probe's threads use is measured apart: they read and report
while either copy runs.

The same blocks without the probe, while TensorFlow's profiler runs; and `fit`, without the probe, with Keras's
TensorBoard callback at update_freq=1 against without. The profiler is started and stopped outside of what is timed.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.attach import probe

keras = tf.keras
OUT, QUICK = Path(sys.argv[1]), sys.argv[2:] == ["--quick"]
SEVERAL = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]) > 1
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy() if SEVERAL else tf.distribute.OneDeviceStrategy("/cpu:0")
CASES = {
    "0.5 ms": (8, 0.0, 20, 600),
    "2 ms": (420, 0.0, 10, 300),
    "20 ms": (8, 0.0195, 4, 150),
    "100 ms": (8, 0.0995, 2, 60),
}
"""Width of the model, seconds of spinning, steps in a block, pairs of blocks."""
PEER_PAIRS = 30

Block = Callable[[], None]


def spin(seconds: np.ndarray, value: np.ndarray) -> np.ndarray:
    until = time.perf_counter() + float(seconds)
    while time.perf_counter() < until:
        pass
    return value


def data() -> Any:
    batch = (tf.random.normal((32, 64)), tf.zeros(32, tf.int64))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_tensors(batch).repeat().with_options(options)


def model(width: int) -> Any:
    layers = [keras.Input((64,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(width, "relu")]
    return keras.Sequential([*layers, keras.layers.Dense(10)])


def looped(width: int, seconds: float, steps: int) -> Block:
    """A block of training steps; traced, and so measured or not, at its first call."""
    with STRATEGY.scope():
        trained, optimizer = model(width), keras.optimizers.SGD(0.01)
        optimizer.build(trained.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    iterator = iter(STRATEGY.experimental_distribute_dataset(data()))

    def replica(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        if seconds:
            inputs = tf.ensure_shape(tf.numpy_function(spin, [seconds, inputs], tf.float32, stateful=False), (None, 64))
        with tf.GradientTape() as tape:
            value = loss(labels, trained(inputs, training=True))
        gradients = tape.gradient(value, trained.trainable_variables)
        optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))

    @tf.function
    def block(iterator: Any) -> None:
        for _ in tf.range(steps):
            STRATEGY.run(replica, args=next(iterator))

    return lambda: block(iterator)


def fitted(width: int, steps: int) -> tuple[Block, Block]:
    """A block of `fit`, without and with the TensorBoard callback."""
    with STRATEGY.scope():
        trained = model(width)
        trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callback = keras.callbacks.TensorBoard(tempfile.mkdtemp(), update_freq=1)

    def fit(**options: Any) -> None:
        trained.fit(data(), steps_per_epoch=steps, verbose=0, **options)

    return fit, lambda: fit(callbacks=[callback])


def timed(block: Block, steps: int) -> float:
    """Microseconds a step."""
    begin = time.perf_counter()
    block()
    return 1e6 * (time.perf_counter() - begin) / steps


def compared(one: Block, other: Block, steps: int, pairs: int) -> dict[str, Any]:
    """Both in turn, each first as often as the other; microseconds a step."""
    first, second = [], []
    for number in range(pairs):
        if number % 2:
            first.append(timed(one, steps))
            second.append(timed(other, steps))
        else:
            second.append(timed(other, steps))
            first.append(timed(one, steps))
    return summary(first, second)


def summary(first: list[float], second: list[float]) -> dict[str, Any]:
    """Medians, and the 95 % interval of the median difference by the order of the differences."""
    added = sorted(a - b for a, b in zip(first, second, strict=True))
    middle, around = len(added) // 2, round(0.98 * len(added) ** 0.5)
    return {
        "pairs": len(added),
        "without": statistics.median(second),
        "with": statistics.median(first),
        "added": statistics.median(added),
        "low": added[max(0, middle - around)],
        "high": added[min(len(added) - 1, middle + around)],
    }


def threads_cpu() -> float:
    """Seconds of CPU that the probe's own threads have used."""
    own = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("tfscale")]
    return sum(int(Path(f"/proc/self/task/{number}/schedstat").read_text().split()[0]) for number in own) / 1e9


def main() -> None:
    found: list[dict[str, Any]] = []
    for name, (width, seconds, steps, pairs) in CASES.items():
        pairs = 6 if QUICK else pairs
        measured = looped(width, seconds, steps)
        measured()
        with probe().recorder.paused():
            plain = looped(width, seconds, steps)
            plain()
        compared(measured, plain, steps, 3)
        cpu, begin = threads_cpu(), time.perf_counter()
        row = compared(measured, plain, steps, pairs)
        share = (threads_cpu() - cpu) / (time.perf_counter() - begin)
        found.append({"step": name, "what": "probe", "threads": share * row["with"], **row})
        found.append({"step": name, "what": "profiler", **under_profiler(plain, steps, min(pairs, PEER_PAIRS))})
        if not seconds:
            with probe().recorder.paused():
                without, with_ = fitted(width, 50)
                without()
                with_()
                found.append(
                    {"step": name, "what": "TensorBoard", **compared(with_, without, 50, min(pairs, PEER_PAIRS))}
                )
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        OUT.write_text(json.dumps(found))


def under_profiler(block: Block, steps: int, pairs: int) -> dict[str, Any]:
    first, second = [], []
    for _ in range(pairs):
        second.append(timed(block, steps))
        tf.profiler.experimental.start(tempfile.mkdtemp())
        block()
        first.append(timed(block, steps))
        tf.profiler.experimental.stop(save=False)
        block()
    return summary(first, second)


if __name__ == "__main__":
    main()
