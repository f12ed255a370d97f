"""The steps that scripts/bench_probe.py compares: started by an agent, writes what it measured to the file it is given.

Steps are called from Python one by one, as `fit` does it. A pair are two graphs that train one model, one traced while
the probe is on, with stamps, and one while it is paused. Single steps of both run in turn, since a machine is not as
fast a moment later; what only one of them needs may have left the caches when its turn comes. Of the differences of all
such neighbours the median is the pair's: bursts do not move it. What stamps add is the median of all pairs: two graphs
of the same ops differ, too, by where they lie in memory.

What a read, and its report to the agent, takes from the steps it meets, beyond what such steps take usually, is
compared with the same shortly before and after, in longer runs of a few graphs with stamps. The probe reads once a
second; here it does so four times, to be known twice as well, and is told once. What the probe adds is the sum of both.
What the agent takes when it looks at its host and tells its frame is found in the same way. Several workers change in
lock-step, since each step's collectives hold them together; each has a core of its own, with its agent, as it has a
host.

Steps of 20 and 100 ms compute for most of that time. While stamps are compared they do so until the time is over: so
what a neighbour takes of it is the same with stamps and without. It would hide what a read takes, too; for reads they
compute as much as was usual. With --asleep they sleep instead, as a host does that has nothing to do beside its
accelerator.

In the same manner, without the probe: steps while TensorFlow's profiler runs, which is started and stopped outside of
what is timed; and `fit` with Keras's TensorBoard callback at update_freq=1, which sees every other slice.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

from tfscale.core.report_schedule import PERIOD, READ_OFFSET

SECOND = PERIOD
"""Of frames, and of reads in all other programs."""
OUT, NAME, QUICK, ASLEEP = Path(sys.argv[1]), sys.argv[2], "--quick" in sys.argv, "--asleep" in sys.argv
READS = 1 if NAME == "100 ms" else 4
"""A second: between two reads there are to be some steps that meet none."""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tfscale.trainer.probe.attach import probe  # noqa: E402

keras = tf.keras

# Before its thread starts, which is when the program first runs.
probe().period = SECOND / READS
probe().read_offset = READ_OFFSET % probe().period


class Case(NamedTuple):
    """Steps that are to last a certain time."""

    width: int
    """Of the model."""
    lasting: float
    """Seconds of each step in which it computes, or sleeps, until they are over."""
    pairs: int
    turns: int
    """Of each pair: in one each of its graphs has two steps."""
    steps_for_reads: int
    """Of each of some graphs with stamps, one after the other."""
    peer_steps: int
    """In a slice whose median is compared with another's."""


class Step(NamedTuple):
    pair: int
    kind: int
    """0 with stamps, 1 without."""
    begin: float
    """Unix time, seconds."""
    took: float
    """Microseconds."""


TASK = json.loads(os.environ["TF_CONFIG"])
SEVERAL = len(TASK["cluster"]["worker"]) > 1
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy() if SEVERAL else tf.distribute.OneDeviceStrategy("/cpu:0")
CASES = {
    "0.5 ms": Case(8, 0.0, 48, 150, 6_600 if SEVERAL else 13_200, 83 if SEVERAL else 300),
    "2 ms": Case(420, 0.0, 64, 90, 6_600 if SEVERAL else 13_200, 30 if SEVERAL else 133),
    "20 ms": Case(8, 0.0192, 96, 40, 2_800, 16),
    "100 ms": Case(8, 0.0992, 96, 12, 600, 6),
}
WARM_UP = 120
"""Steps until TensorFlow has found out which ops are too cheap to be handed to another thread: it assumes 1e8 cycles of
each, takes a tenth off at each run, and calls 8,000 cheap (`ExecutorImpl::KernelStats`)."""
PEER_PAIRS = 2 if QUICK else 30
GRAPHS_FOR_READS = 1 if QUICK else 4
TOLD = 0.0
"""When in each second the agents, of so few, look at their hosts and tell their frames."""
SHOWN = 0.3
"""Seconds later the console, on the same machine, has done what it does about them."""
READ = [probe().read_offset + number * probe().period for number in range(READS)]
"""When in each second the probe reads."""
READ_TAKES, FRAME_TAKES = 0.005, 0.02
"""Seconds by which a read, or a frame, has taken what it takes away."""
MOST = 10_000.0
"""Microseconds that are taken away at the most: more is a neighbour's."""

_kept: list[Any] = []

Run = Callable[[], None]
"""Of one step."""
During = Callable[[], AbstractContextManager[Any]]


class Lasting(keras.layers.Layer):
    """Hands its input on after a while. All there are do the same; first they take no time."""

    seconds = tf.Variable(0.0, trainable=False, dtype=tf.float64)
    """Until which they go on."""
    rounds = tf.Variable(0, trainable=False)
    """At the least; each takes some 30 us."""
    weights_of_rounds = tf.random.normal((32, 256, 256), stddev=1 / 16)
    """More than a core's own caches hold: all are used once, and then one, which neighbours do not slow down."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + 0.0 * (self._slept if ASLEEP else self._computed)(tf.stop_gradient(inputs))

    def _computed(self, inputs: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([inputs]):
            end = tf.timestamp() + self.seconds

        def goes_on(done: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return tf.logical_or(tf.timestamp() < end, done < self.rounds)

        def round_(done: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            weights = self.weights_of_rounds[tf.where(done < 32, done, 0)]
            return done + 1, tf.nn.relu(tf.matmul(values, weights))

        _, values = tf.while_loop(goes_on, round_, [tf.constant(0), tf.ones((4, 256))], parallel_iterations=1)
        return values[:1, :1]

    def _slept(self, inputs: tf.Tensor) -> tf.Tensor:
        def sleep(values: np.ndarray, seconds: float) -> np.ndarray:
            time.sleep(seconds)
            return values

        slept = tf.numpy_function(sleep, [inputs, self.seconds], tf.float32, stateful=False)
        return tf.ensure_shape(slept, inputs.shape)


def lasting(seconds: float = 0.0, rounds: int = 0) -> None:
    """What takes time goes on for so long from now on, and makes so many rounds."""
    Lasting.seconds.assign(seconds)
    Lasting.rounds.assign(rounds)


def rounds_in(seconds: float, run: Run) -> int:
    """As many as take so long."""
    some, times = 200, []
    for rounds in (0, some):
        lasting(rounds=rounds)
        times.append(statistics.median(timed(run) for _ in range(20)))
    return round(1e6 * seconds * some / (times[1] - times[0]))


def data() -> Any:
    batch = (tf.random.normal((32, 64)), tf.zeros(32, tf.int64))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_tensors(batch).repeat().with_options(options)


def model(case: Case) -> Any:
    layers = [keras.Input((64,)), keras.layers.Dense(case.width, "relu"), keras.layers.Dense(case.width, "relu")]
    return keras.Sequential([*layers, *[Lasting()] * bool(case.lasting), keras.layers.Dense(10)])


def loops(case: Case, stamped_first: bool) -> tuple[Run, Run]:
    """A custom training loop of one model, traced with stamps and without, in either order."""
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

        def run() -> None:
            step(iterator)

        with nullcontext() if stamped else probe().paused():
            for _ in range(WARM_UP):
                run()
        return run

    lasting()
    both = {stamped: traced(stamped) for stamped in (stamped_first, not stamped_first)}
    return both[True], both[False]


class Turns(keras.callbacks.Callback):
    """Has another callback look at the batches of every other slice (A B, B A, ...), and times the batches."""

    def __init__(self, callback: Any, steps: int) -> None:
        super().__init__()
        self.callback, self.steps = callback, steps
        self.ended = 0.0
        self.slice: list[float] = []
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
        if batch == 0:
            self.ended = time.perf_counter()
        if self.looks(batch):
            self.callback.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.looks(batch):
            self.callback.on_train_batch_end(batch, logs)
        now = time.perf_counter()
        self.slice.append(1e6 * (now - self.ended))
        self.ended = now
        if (batch + 1) % self.steps == 0:
            self.times[self.looks(batch)].append(statistics.median(self.slice))
            self.slice.clear()


def logged(case: Case, number: int) -> dict[str, Any]:
    """One `fit`, of which the TensorBoard callback sees every other slice."""
    with STRATEGY.scope():
        trained = model(case)
        trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    turns = Turns(keras.callbacks.TensorBoard(tempfile.mkdtemp(), update_freq=1), case.peer_steps)
    trained.fit(data(), steps_per_epoch=2 * case.peer_steps * (number + 1), verbose=0, callbacks=[turns])
    # The first of each was traced.
    return summary(turns.times[True][1:], turns.times[False][1:])


def compared(pair: tuple[Run, Run], steps: int, number: int, on: During, off: During) -> dict[str, Any]:
    """Microseconds a step with and without, slices of both in turn."""
    times: tuple[list[float], list[float]] = [], []
    for turn, kind in itertools.product(range(number), (0, 1)):
        kind = (kind + turn) % 2
        with (on, off)[kind]():
            times[kind].append(statistics.median(timed(pair[kind]) for _ in range(steps)))
    return summary(*times)


def interleaved(pairs: list[tuple[Run, Run]], turns: int) -> Iterator[Step]:
    """Single steps of one pair after another, of its graphs in turn: A B B A, then B A A B; of every other pair the
    other way round."""
    # Counted and not timed: workers that did not end together would wait for each other for ever.
    for (number, pair), turn in itertools.product(enumerate(pairs), range(turns)):
        for second in (0, 1, 1, 0):
            kind = (second + turn + number) % 2
            begin = time.time()
            yield Step(number, kind, begin, timed(pair[kind]))


def in_a_row(graphs: list[Run], number: int) -> Iterator[Step]:
    """So many single steps of one graph after another: a program that trains has one graph, and its steps are read the
    short way."""
    for (graph, run), _ in itertools.product(enumerate(graphs), range(number)):
        begin = time.time()
        yield Step(graph, 0, begin, timed(run))


def of_stamps(steps: list[Step]) -> dict[str, Any]:
    """What stamps add to a step."""
    with_, without = [], []
    for _, steps_of_pair in itertools.groupby(steps, key=lambda step: step.pair):
        times: tuple[list[float], list[float]] = [], []
        for step in steps_of_pair:
            times[step.kind].append(step.took)
        usual = statistics.median(times[1])
        without.append(usual)
        with_.append(usual + statistics.median(one - other for one, other in zip(*times, strict=True)))
    return summary(with_, without)


def taken_at(laps: Sequence[float], takes: float, steps: list[Step]) -> dict[str, Any]:
    """What is taken from the steps at these moments of each second, within so many seconds, beyond what is shortly
    before and after; of one moment a second, on the average of all steps."""
    begin, took = np.array([step.begin for step in steps]), np.array([step.took for step in steps])
    end = begin + took / 1e6
    usual: dict[Any, list[float]] = defaultdict(list)
    for step in steps:
        usual[step[:2]].append(step.took)
    usually = {kind: statistics.median(times) for kind, times in usual.items()}
    beyond = np.cumsum([0.0, *(step.took - usually[step[:2]] for step in steps)])
    seconds = np.arange(begin[0] // SECOND, begin[-1] // SECOND + 1)[:, None] * SECOND
    each, events = (seconds[2:-1] + laps).ravel(), (seconds + sorted([TOLD, *READ])).ravel()

    def taken(beside: float) -> np.ma.MaskedArray:
        """Microseconds beyond the usual in the steps that go on then, and shortly after, where they meet nothing
        else."""
        at = each + beside
        first, last = np.searchsorted(end, at), np.searchsorted(begin, at + takes)
        met = np.searchsorted(events, end[last - 1]) - np.searchsorted(events, begin[first])
        own = 0 if beside else 1
        return np.ma.array(np.clip(beyond[last] - beyond[first], -MOST, MOST), mask=met > own)

    apart = takes + 1.5e-6 * took.mean()
    quiet = np.ma.stack([taken(number * apart) for number in (-2, -1, 1, 2)]).mean(axis=0)
    more = (taken(0.0) - quiet).compressed()
    share = took.mean() / (1e6 * SECOND)
    added, around = share * more.mean(), 2 * share * more.std() / len(more) ** 0.5
    return {"pairs": len(more), "added": added, "low": added - around, "high": added + around}


def of_both(stamps: dict[str, Any], reads: dict[str, Any]) -> dict[str, Any]:
    """What the probe adds: as much as both, which are independent."""
    added = stamps["added"] + reads["added"]
    below, above = (math.hypot(*(each["added"] - each[end] for each in (stamps, reads))) for end in ("low", "high"))
    return {**stamps, "added": added, "low": added - below, "high": added + above}


def timed(run: Run) -> float:
    """Microseconds."""
    begin = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - begin)


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


def probe_and_peers(case: Case) -> Iterator[dict[str, Any]]:
    """The rows of a case. The profiler comes last: to start and stop it beside collectives sometimes crashes the
    process."""
    pairs = [loops(case, stamped_first=number % 2 == 0) for number in range(2 if QUICK else case.pairs)]
    lasting(case.lasting)
    stamps = of_stamps(list(interleaved(pairs, case.turns)))
    if case.lasting and not ASLEEP:
        lasting(rounds=rounds_in(case.lasting, pairs[0][1]))
    cpu = threads_cpu()
    steps = list(in_a_row([stamped for stamped, _ in pairs[:GRAPHS_FOR_READS]], case.steps_for_reads))
    used = 1e6 * (threads_cpu() - cpu) / len(steps) / READS
    lasting(case.lasting)
    reads = taken_at([lap for lap in READ if lap > TOLD + SHOWN], READ_TAKES, steps)
    yield {"what": "probe", "threads": used, **of_both(stamps, reads)}
    yield {"what": "probe, its stamps", **stamps}
    yield {"what": "probe, its reads", **reads}
    yield {"what": "agent", **taken_at([TOLD], FRAME_TAKES, steps)}
    # TensorFlow sometimes waits for ever when it takes the iterators of many data sets apart.
    _kept.extend(pairs)
    plain = pairs[0][1]
    with probe().paused():
        yield {"what": "TensorBoard", **logged(case, PEER_PAIRS)}
        yield {"what": "profiler", **compared((plain, plain), case.peer_steps, PEER_PAIRS, profiled, nullcontext)}


def main() -> None:
    """Each row is on disk as soon as it is known."""
    found: list[dict[str, Any]] = []
    for row in probe_and_peers(CASES[NAME]):
        found.append(row)
        if TASK["task"]["index"] == 0:
            whole = OUT.with_suffix(".new")
            whole.write_text(json.dumps(found))
            whole.replace(OUT)
    if TASK["task"]["index"] == 0:
        OUT.with_suffix(".done").touch()


if __name__ == "__main__":
    main()
