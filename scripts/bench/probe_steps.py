"""Training steps with and without the probe: the task that scripts/bench/probe.py has agents start.

    probe_steps.py OUT STEP READ [--quick]

Compares on one worker, or in lock-step on two, and writes what it measured to OUT as JSON (`Measured`); STEP is a key
of CASES, READ the second's fraction at which probes read. It uses of tfscale only `probe().paused()`, inside of which a
function is traced without stamps, and that the names of the probe's threads begin with "tfscale"; so that the same file
runs on another checkout.

*Stamps.* A pair is two graphs of one model, one traced with stamps and one without. Their single steps take turns
(A B B A), since a machine is not as fast a moment later, and the pair's difference is the median of the differences of
neighbours. Graphs of the same ops differ by tens of microseconds, by where they lie in memory: so many pairs are made,
and few steps of each.

*Reads.* A read meets one step in many. So one graph with stamps runs alone for a while, and the time that steps beside
a read take beyond the usual is compared with the same at calm moments just before. The agent's frame is measured in
this way, too.

A step of 20 ms computes until its time is over where stamps are compared, so that a neighbour on the machine slows no
step down. That would hide what a read takes: where reads are measured, it computes a fixed amount instead.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

import numpy as np
import tensorflow as tf

keras = tf.keras
probe = next(
    module.probe
    for name, module in sys.modules.items()
    if name.startswith("tfscale.trainer.") and name.endswith(".attach")
)
"""The probe that TensorFlow's import has brought: each version of tfscale has it in a folder of its own."""


class Case(NamedTuple):
    """Size of one comparison. Steps are counted and not timed: workers that ended apart would wait for ever."""

    width: int
    """Units of the model's layers."""
    seconds: float
    """Time that each step computes beside the model."""
    pairs: int
    turns: int
    """Turns of each pair: in one, each of its graphs makes two steps."""
    alone: int
    """Steps of the one graph whose reads are measured."""


TASK = json.loads(os.environ["TF_CONFIG"])
SEVERAL = len(TASK["cluster"]["worker"]) > 1
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy() if SEVERAL else tf.distribute.OneDeviceStrategy("/cpu:0")
CASES = {
    "0.5 ms": Case(8, 0.0, 24, 120, 30_000),
    "2 ms": Case(420, 0.0, 24, 90, 14_000),
    "20 ms": Case(8, 0.0192, 24, 25, 2_000),
}
WARM_UP = 120
"""Steps after which TensorFlow has learnt which ops are cheap, and hands those to no other thread any more: it assumes
1e8 cycles an op, corrects that by a tenth at each run, and calls 8,000 cheap (`ExecutorImpl::KernelStats`)."""
FRAME = 0.0
"""Fraction of each second at which an agent sends its frame; the console is at work until CALM."""
READ_SECONDS, FRAME_SECONDS = 0.005, 0.02
"""Time after which a read, or a frame, has taken from a step what it takes."""
CALM = (0.2, 0.3, 0.4)
"""Seconds before a read or a frame at which nothing of tfscale happens."""

Run = Callable[[], None]
"""A function that makes one step."""


class Measured(NamedTuple):
    """Result of one task."""

    usual: float
    """Step without stamps, median, microseconds."""
    stamps: list[float]
    """Microseconds added to a step by its stamps, one value a pair."""
    reads: list[float]
    """Microseconds that each read took from the steps beside it; one value a second."""
    frames: list[float]
    """The same for each frame of the agents."""
    threads: list[float]
    """CPU of the probe's threads, milliseconds a second; one value a second."""
    begin: float
    """Unix time at which the graph began to run alone, seconds."""
    end: float


class Computing(keras.layers.Layer):
    """Layer that multiplies matrices for a while, and hands its input on. All layers of this class do the same."""

    seconds = tf.Variable(0.0, trainable=False, dtype=tf.float64)
    """Least time of a step."""
    rounds = tf.Variable(0, trainable=False)
    """Least number of products, 30 us each."""
    matrices = tf.random.normal((32, 256, 256), stddev=1 / 16)
    """More than a core's caches hold. Each is used once in a step, so that what a step needs has left the caches as in
    real training; then only the first, whose pace neighbours of the machine hardly change."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([inputs]):
            end = tf.timestamp() + self.seconds

        def goes_on(done: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return tf.logical_or(tf.timestamp() < end, done < self.rounds)

        def multiplied(done: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            matrix = self.matrices[tf.where(done < len(self.matrices), done, 0)]
            return done + 1, tf.nn.relu(tf.matmul(values, matrix))

        _, values = tf.while_loop(goes_on, multiplied, [tf.constant(0), tf.ones((4, 256))], parallel_iterations=1)
        return inputs + 0.0 * values[:1, :1]


def compute(seconds: float = 0.0, rounds: int = 0) -> None:
    """Make all steps from now on compute for so long, and for so many rounds."""
    Computing.seconds.assign(seconds)
    Computing.rounds.assign(rounds)


def rounds_in(seconds: float, run: Run) -> int:
    """Return how many rounds take so long in steps of `run`."""
    tried, medians = 200, []
    for rounds in (0, tried):
        compute(rounds=rounds)
        medians.append(statistics.median(timed(run) for _ in range(20)))
    return round(1e6 * seconds * tried / (medians[1] - medians[0]))


def data() -> Any:
    batch = (tf.random.normal((32, 64)), tf.zeros(32, tf.int64))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_tensors(batch).repeat().with_options(options)


def model(case: Case) -> Any:
    layers = [keras.Input((64,)), keras.layers.Dense(case.width, "relu"), keras.layers.Dense(case.width, "relu")]
    return keras.Sequential([*layers, *[Computing()] * bool(case.seconds), keras.layers.Dense(10)])


def pair_of_loops(case: Case, stamped_first: bool) -> tuple[Run, Run]:
    """Trace a custom training loop of one model with stamps and without; return both, warmed up."""
    with STRATEGY.scope():
        trained, optimizer = model(case), keras.optimizers.SGD(0.01)
        optimizer.build(trained.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # A distributed data set has threads of its own, which one device does not need.
    iterator = iter(STRATEGY.experimental_distribute_dataset(data()) if SEVERAL else data())

    def replica(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = loss(labels, trained(inputs, training=True))
        gradients = tape.gradient(value, trained.trainable_variables)
        optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))

    def traced(stamped: bool) -> Run:
        @tf.function
        def step(iterator: Any) -> None:
            STRATEGY.run(replica, args=next(iterator))

        with nullcontext() if stamped else probe().paused():
            for _ in range(WARM_UP):
                step(iterator)
        return lambda: step(iterator)

    compute()
    loops = {stamped: traced(stamped) for stamped in (stamped_first, not stamped_first)}
    return loops[True], loops[False]


def timed(run: Run) -> float:
    """Return the microseconds of one step."""
    begin = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - begin)


def compare(pair: tuple[Run, Run], turns: int) -> tuple[float, float]:
    """Return the microseconds that stamps add to a step, and those of a step without them; medians."""
    times: tuple[list[float], list[float]] = [], []
    for turn in range(turns):
        for second in (0, 1, 1, 0):
            kind = (second + turn) % 2
            times[kind].append(timed(pair[kind]))
    added = statistics.median(one - other for one, other in zip(*times, strict=True))
    return added, statistics.median(times[1])


class Alone:
    """Steps of one graph, one after the other, and what the probe's threads used meanwhile."""

    def __init__(self, run: Run, steps: int) -> None:
        self._begin, self._took = np.empty(steps), np.empty(steps)
        cpu = [(-math.inf, 0.0)]
        for number in range(steps):
            self._begin[number] = time.time()
            self._took[number] = timed(run)
            # Once a second, away from the reads, and not within a step.
            if self._begin[number] > cpu[-1][0] + 0.5 and 0.3 < self._begin[number] % 1 < 0.4:
                cpu.append((time.time(), threads_cpu()))
        self._end = self._begin + self._took / 1e6
        self._beyond = np.cumsum([0.0, *(self._took - np.median(self._took))])
        at, used = np.array(cpu[1:]).T
        self.threads = (1e3 * np.diff(used) / np.diff(at)).tolist()

    def taken(self, moment: float, seconds: float) -> list[float]:
        """Return by how many microseconds the steps that meet the moment of each second exceed those of calm ones."""
        at = np.arange(np.ceil(self._begin[0]) + 1, np.floor(self._end[-1])) + moment
        calm = np.mean([self._excess(at - before, seconds) for before in CALM], axis=0)
        return (self._excess(at, seconds) - calm).tolist()

    def _excess(self, at: np.ndarray, seconds: float) -> np.ndarray:
        """Sum the microseconds beyond the median of all steps that are under way within these seconds."""
        first, last = np.searchsorted(self._end, at), np.searchsorted(self._begin, at + seconds)
        return self._beyond[last] - self._beyond[first]


def threads_cpu() -> float:
    """Return the seconds of CPU that the probe's own threads have used."""
    own = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("tfscale")]
    return sum(int(Path(f"/proc/self/task/{number}/schedstat").read_text().split()[0]) for number in own) / 1e9


def measure(case: Case, read: float) -> Measured:
    pairs, compared = [], []
    for number in range(case.pairs):
        # Kept: TensorFlow sometimes waits for ever when it takes the iterators of many data sets apart.
        pairs.append(pair_of_loops(case, stamped_first=number % 2 == 0))
        compute(case.seconds)
        compared.append(compare(pairs[-1], case.turns))
    stamps, usual = zip(*compared, strict=True)
    stamped, plain = pairs[-1]
    if case.seconds:
        compute(rounds=rounds_in(case.seconds, plain))
    begin = time.time()
    alone = Alone(stamped, case.alone)
    return Measured(
        statistics.median(usual),
        list(stamps),
        alone.taken(read, READ_SECONDS),
        alone.taken(FRAME, FRAME_SECONDS),
        alone.threads,
        begin,
        time.time(),
    )


def write(out: Path, result: dict[str, Any]) -> None:
    """Replace the file as a whole; of several workers the first one writes."""
    if TASK["task"]["index"] == 0:
        whole = out.with_suffix(".new")
        whole.write_text(json.dumps(result))
        whole.replace(out)


if __name__ == "__main__":
    chosen = CASES[sys.argv[2]]
    if "--quick" in sys.argv:
        chosen = chosen._replace(pairs=3, alone=chosen.alone // 5)
    write(Path(sys.argv[1]), measure(chosen, float(sys.argv[3]))._asdict())
