"""TensorFlow's profiler and Keras's TensorBoard callback on the steps of probe_steps.py, without the probe.

    probe_peers.py OUT STEP [--quick]

Started by agents, as probe_steps.py is. Writes to OUT, by peer, the microseconds that it adds to a step, one value for
each pair of slices of steps with and without it. The profiler comes last: to start and stop it beside collectives
crashes the process now and then (docs/reference/cost.md), and then its values are missing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from probe_steps import CASES, STRATEGY, Case, compute, data, keras, model, pair_of_loops, timed, write
from tfscale.trainer.probe.entry.attach import probe

SLICE_SECONDS = 0.3
"""Time of the steps whose median is compared with another's."""

Slice = Callable[[bool, int], float]
"""A function that makes so many steps, with the peer or without, and returns their median in microseconds."""


class Ends(keras.callbacks.Callback):
    """Callback that keeps the times at which steps of `fit` ended, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())


def tensorboard(case: Case) -> Slice:
    with STRATEGY.scope():
        trained = model(case)
        trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def fit(on: bool, steps: int) -> float:
        ends = Ends()
        peers = [keras.callbacks.TensorBoard(tempfile.mkdtemp(), update_freq=1)] if on else []
        trained.fit(data(), steps_per_epoch=steps, verbose=0, callbacks=[*peers, ends])
        return float(np.median(np.diff(ends.times))) * 1e6

    return fit


def profiler(case: Case) -> Slice:
    _, run = pair_of_loops(case, stamped_first=False)

    def steps_of_loop(on: bool, steps: int) -> float:
        if on:
            tf.profiler.experimental.start(tempfile.mkdtemp())
        median = float(np.median([timed(run) for _ in range(steps)]))
        if on:
            tf.profiler.experimental.stop(save=False)
        return median

    return steps_of_loop


def compare(slice_of: Slice, steps: int, pairs: int) -> list[float]:
    """Return the differences of neighbouring slices (A B B A) with and without the peer."""
    differences = []
    for number in range(pairs):
        medians = {on: slice_of(on, steps) for on in ((True, False), (False, True))[number % 2]}
        differences.append(medians[True] - medians[False])
    return differences


def main() -> None:
    case, pairs = CASES[sys.argv[2]], 3 if "--quick" in sys.argv else 30
    found: dict[str, list[float]] = {}
    for peer in (tensorboard, profiler):
        slice_of = peer(case)
        compute(case.seconds)
        with probe().paused():
            slice_of(False, 10)  # traces the step
            found[peer.__name__] = compare(slice_of, round(SLICE_SECONDS / (case.seconds + 0.003)), pairs)
        write(Path(sys.argv[1]), found)


if __name__ == "__main__":
    main()
