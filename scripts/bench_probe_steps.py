"""The steps that scripts/bench_probe.py compares: started by an agent, writes what it measured to the file it is given.

Steps are called from Python one by one, as `fit` does it. Those with the probe and those without train one model, in
graphs traced while the probe is on and while it is paused. A pair is a second of either, in tenths that take turns
(A B, B A, ...) in one process, so that both meet the same noise. While the steps without are timed, the probe's threads
rest too, and of their reads, one a second, those that fall into such a tenth are left out: so there is one in a second
of the others, as usual, and what it takes away from the program is in what is added. Two graphs
of the same ops differ by more than is to be measured, by where they lie in memory: there are several of each, one after
the other. A second comparison is of single steps. Several workers change in lock-step, since each step's collectives
hold them together; each has a core of its own, as it has a host. Steps of 20 and 100 ms sleep for most of that time,
as a host does beside its accelerator.

In the same manner, without the probe: steps while TensorFlow's profiler runs, which is started and stopped outside of
what is timed; and `fit` with Keras's TensorBoard callback at update_freq=1, which sees every other slice.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

import numpy as np
import tensorflow as tf
from tfscale.trainer.probe.attach import probe

keras = tf.keras
OUT, QUICK = Path(sys.argv[1]), "--quick" in sys.argv[2:]
CHOSEN = [name for name in sys.argv[2:] if name != "--quick"]
TASK = json.loads(os.environ["TF_CONFIG"])
SEVERAL = len(TASK["cluster"]["worker"]) > 1
if SEVERAL:
    # Else they would take each other's core now and then, by chance, which hosts do not.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[TASK["task"]["index"] % len(cores)]})
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy() if SEVERAL else tf.distribute.OneDeviceStrategy("/cpu:0")
CASES = {
    "0.5 ms": (8, 0.0, 500 if SEVERAL else 1800),
    "2 ms": (420, 0.0, 180 if SEVERAL else 800),
    "20 ms": (8, 0.0192, 40 if SEVERAL else 50),
    "100 ms": (8, 0.0992, 10),
}
"""Width of the model, seconds of sleep, steps in a slice: about a second, also where collectives come on top."""
WARM_UP = 120
"""Steps until TensorFlow has found out which ops are too cheap to be handed to another thread: it assumes 1e8 cycles of
each, takes a tenth off at each run, and calls 8,000 cheap (`ExecutorImpl::KernelStats`)."""
IN_TURN = 10
"""Single steps of one kind that follow each other."""
COPIES, PAIRS, PEER_PAIRS = (2, 4, 2) if QUICK else (12, 36, 30)
PARTS = 10
"""Of a second that is compared with another; the steps of a slice can be divided by it."""

_kept: list[Any] = []
_asleep = threading.Event()
"""Whether steps sleep: not while they warm up."""

Steps = Callable[[int], None]
During = Callable[[], AbstractContextManager[Any]]


class Sleep(keras.layers.Layer):
    """Hands its input on after a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        def sleep(values: np.ndarray) -> np.ndarray:
            if _asleep.is_set():
                time.sleep(self.seconds)
            return values

        slept = tf.numpy_function(sleep, [tf.stop_gradient(inputs)], tf.float32, stateful=False)
        return inputs + 0.0 * tf.ensure_shape(slept, inputs.shape)


def data() -> Any:
    batch = (tf.random.normal((32, 64)), tf.zeros(32, tf.int64))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_tensors(batch).repeat().with_options(options)


def model(width: int, seconds: float) -> Any:
    layers = [keras.Input((64,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(width, "relu")]
    return keras.Sequential([*layers, *[Sleep(seconds)] * bool(seconds), keras.layers.Dense(10)])


def loops(width: int, seconds: float, stamped_first: bool) -> tuple[Steps, Steps]:
    """A custom training loop of one model, traced with stamps and without, in either order."""
    with STRATEGY.scope():
        trained, optimizer = model(width, seconds), keras.optimizers.SGD(0.01)
        optimizer.build(trained.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # A distributed data set has threads of its own, which one device does not need.
    iterator = iter(STRATEGY.experimental_distribute_dataset(data()) if SEVERAL else data())

    def replica(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = loss(labels, trained(inputs, training=True))
        gradients = tape.gradient(value, trained.trainable_variables)
        optimizer.apply_gradients(zip(gradients, trained.trainable_variables, strict=True))

    def traced(stamped: bool) -> Steps:
        @tf.function
        def step(iterator: Any) -> None:
            STRATEGY.run(replica, args=next(iterator))

        def steps(number: int) -> None:
            for _ in range(number):
                step(iterator)

        with nullcontext() if stamped else probe().paused():
            steps(WARM_UP)
        return steps

    _asleep.clear()
    both = {stamped: traced(stamped) for stamped in (stamped_first, not stamped_first)}
    _asleep.set()
    return both[True], both[False]


class Turns(keras.callbacks.Callback):
    """Has another callback look at the batches of every other slice (A B, B A, ...), and times the slices."""

    def __init__(self, callback: Any, steps: int) -> None:
        super().__init__()
        self.callback, self.steps = callback, steps
        self.begun = 0.0
        self.times: dict[bool, list[float]] = {True: [], False: []}

    def on_train_begin(self, logs: Any = None) -> None:
        self.callback.set_params(self.params)
        self.callback.set_model(self.model)
        self.callback.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self.callback.on_train_end(logs)

    def looks(self, batch: int) -> bool:
        pair, second = divmod(batch // self.steps, 2)
        return pair % 2 == second

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch % self.steps == 0:
            self.begun = time.perf_counter()
        if self.looks(batch):
            self.callback.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.looks(batch):
            self.callback.on_train_batch_end(batch, logs)
        if (batch + 1) % self.steps == 0:
            took = time.perf_counter() - self.begun
            self.times[self.looks(batch)].append(1e6 * took / self.steps)


def logged(width: int, seconds: float, steps: int, number: int) -> dict[str, Any]:
    """One `fit`, of which the TensorBoard callback sees every other slice."""
    with STRATEGY.scope():
        trained = model(width, seconds)
        trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    turns = Turns(keras.callbacks.TensorBoard(tempfile.mkdtemp(), update_freq=1), steps)
    trained.fit(data(), steps_per_epoch=2 * steps * (number + 1), verbose=0, callbacks=[turns])
    # The first of each was traced.
    return summary(turns.times[True][1:], turns.times[False][1:])


def in_turn(turn: int, parts: int) -> Iterator[int]:
    """Both kinds (0, 1), once each in a part: A B B A ..., and B A A B ... every other turn, so that what ran before
    favours neither."""
    return ((which + turn + part) % 2 for part, which in itertools.product(range(parts), (0, 1)))


def compared(
    pairs: list[tuple[Steps, Steps]], steps: int, number: int, on: During, off: During, parts: int = 1
) -> dict[str, Any]:
    """Microseconds a step with and without, slices of both in turn and in so many parts, each first as often as the
    other."""
    times: tuple[list[float], list[float]] = [], []
    for turn, pair in zip(range(number), itertools.cycle(pairs)):
        spent = [0.0, 0.0]
        for kind in in_turn(turn, parts):
            with (on, off)[kind]():
                spent[kind] += timed(pair[kind], steps // parts) / parts
        for each, taken in zip(times, spent, strict=True):
            each.append(taken)
    return summary(*times)


def interleaved(pairs: list[tuple[Steps, Steps]], rounds: int) -> dict[str, Any]:
    """The same by single steps, IN_TURN of either kind in turn, the first of them unseen, of one copy after another.

    Of each copy the lower quartiles are compared: what comes in bursts - the probe's threads, a neighbour - does not
    move them. What is added is the mean of all copies, the interval twice its standard error.
    """
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in pairs]
    # Counted and not timed: workers that did not end together would wait for each other for ever.
    for turn, (pair, times) in itertools.product(range(rounds), zip(pairs, found, strict=True)):
        for kind in in_turn(turn, 2):
            pair[kind](1)
            times[kind].extend(timed(pair[kind], 1) for _ in range(IN_TURN))
    quartiles = [[statistics.quantiles(times)[0] for times in copy] for copy in found]
    added = [with_ - without for with_, without in quartiles]
    with_, without = (statistics.mean(each) for each in zip(*quartiles, strict=True))
    middle, error = statistics.mean(added), statistics.stdev(added) / len(added) ** 0.5
    around = {"low": middle - 2 * error, "high": middle + 2 * error}
    return {"pairs": len(pairs), "with": with_, "without": without, "added": middle, **around}


def timed(run: Steps, steps: int) -> float:
    begin = time.perf_counter()
    run(steps)
    return 1e6 * (time.perf_counter() - begin) / steps


def summary(with_: list[float], without: list[float]) -> dict[str, Any]:
    """Medians, and the 95 % interval of the median difference by the order of the differences."""
    added = sorted(one - other for one, other in zip(with_, without, strict=True))
    middle, around = len(added) // 2, round(0.98 * len(added) ** 0.5)
    return {
        "pairs": len(added),
        "with": statistics.median(with_),
        "without": statistics.median(without),
        "added": statistics.median(added),
        "low": added[max(0, middle - around)],
        "high": added[min(len(added) - 1, middle + around)],
    }


@contextmanager
def profiled() -> Iterator[None]:
    tf.profiler.experimental.start(tempfile.mkdtemp())
    try:
        yield
    finally:
        tf.profiler.experimental.stop(save=False)


def threads_cpu() -> float:
    """Seconds of CPU that the probe's own threads have used."""
    own = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("tfscale")]
    return sum(int(Path(f"/proc/self/task/{number}/schedstat").read_text().split()[0]) for number in own) / 1e9


def probe_and_peers(cases: dict[str, tuple[int, float, int]]) -> Iterator[dict[str, Any]]:
    """The profiler comes last: starting and stopping it beside collectives sometimes crashes the process."""
    plain = {}
    for name, (width, seconds, steps) in cases.items():
        pairs = [loops(width, seconds, stamped_first=copy % 2 == 0) for copy in range(COPIES)]
        cpu = threads_cpu()
        row = compared(pairs, steps, PAIRS, nullcontext, probe().paused, PARTS)
        used = (threads_cpu() - cpu) / (PAIRS * steps)
        yield {"step": name, "what": "probe", "threads": 1e6 * used, **row}
        yield {"step": name, "what": "probe, its stamps", **interleaved(pairs, 2 * max(1, steps // 16))}
        plain[name] = pairs[0][1]
        # TensorFlow sometimes waits for ever when it takes the iterators of many data sets apart.
        _kept.extend(pairs)
        with probe().paused():
            yield {"step": name, "what": "TensorBoard", **logged(width, seconds, max(3, steps // 6), PEER_PAIRS)}
    for name, (_, _, steps) in cases.items():
        both = [(plain[name], plain[name])]
        with probe().paused():
            row = compared(both, max(3, steps // 6), PEER_PAIRS, profiled, nullcontext)
        yield {"step": name, "what": "profiler", **row}


def main() -> None:
    """Each row is on disk as soon as it is known."""
    found: list[dict[str, Any]] = []
    for row in probe_and_peers({name: case for name, case in CASES.items() if name in CHOSEN}):
        found.append(row)
        if TASK["task"]["index"] == 0:
            whole = OUT.with_suffix(".new")
            whole.write_text(json.dumps(found))
            whole.replace(OUT)
    if TASK["task"]["index"] == 0:
        OUT.with_suffix(".done").touch()


if __name__ == "__main__":
    main()
