"""TensorFlow's profiler and Keras's TensorBoard callback on the steps of probe_steps.py, without the probe.

    probe_peers.py OUT STEP [--quick]

Started by agents, as probe_steps.py is. Writes to OUT, by peer, the microseconds that it adds to a step, one value for
each pair of slices of steps with and without it. The profiler comes last: to start and stop it beside collectives
crashes the process now and then (docs/cost.md), and then its value is missing.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
from probe_steps import CASES, STRATEGY, Case, compute, data, keras, model, pair_of_loops, timed, write
from tfscale.trainer.probe.attach import probe

SLICE_SECONDS = 0.3
"""Time of the steps whose median is compared with another's."""


class EveryOtherSlice(keras.callbacks.Callback):
    """Hands the batches of every other slice to another callback (A B, B A, ...), and times all of them."""

    def __init__(self, callback: Any, steps: int) -> None:
        super().__init__()
        self.callback, self.steps = callback, steps
        self.ended = 0.0
        self.slice: list[float] = []
        self.medians: dict[bool, list[float]] = {True: [], False: []}

    def on_train_begin(self, logs: Any = None) -> None:
        self.callback.set_params(self.params)
        self.callback.set_model(self.model)
        self.callback.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self.callback.on_train_end(logs)

    def is_on(self, batch: int) -> bool:
        pair, second = divmod(batch // self.steps, 2)
        return pair % 2 == second

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == 0:
            self.ended = time.perf_counter()
        if self.is_on(batch):
            self.callback.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.is_on(batch):
            self.callback.on_train_batch_end(batch, logs)
        now = time.perf_counter()
        self.slice.append(1e6 * (now - self.ended))
        self.ended = now
        if (batch + 1) % self.steps == 0:
            self.medians[self.is_on(batch)].append(statistics.median(self.slice))
            self.slice.clear()


def tensorboard(case: Case, steps: int, pairs: int) -> list[float]:
    """Return what the callback adds to a step of `fit` at update_freq=1, microseconds, one value a pair."""
    with STRATEGY.scope():
        trained = model(case)
        trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    slices = EveryOtherSlice(keras.callbacks.TensorBoard(tempfile.mkdtemp(), update_freq=1), steps)
    trained.fit(data(), steps_per_epoch=2 * steps * (pairs + 1), verbose=0, callbacks=[slices])
    # In the first pair the step was traced.
    return differences(slices.medians[True][1:], slices.medians[False][1:])


def profiler(case: Case, steps: int, pairs: int) -> list[float]:
    """Return what the profiler adds to a step while it runs, microseconds, one value a pair."""
    _, run = pair_of_loops(case, stamped_first=False)
    compute(case.seconds)
    medians: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * pairs):
        on = number // 2 % 2 == number % 2
        if on:
            tf.profiler.experimental.start(tempfile.mkdtemp())
        medians[on].append(statistics.median(timed(run) for _ in range(steps)))
        if on:
            tf.profiler.experimental.stop(save=False)
    return differences(medians[True], medians[False])


def differences(with_: list[float], without: list[float]) -> list[float]:
    return [one - other for one, other in zip(with_, without, strict=True)]


def main() -> None:
    case, pairs = CASES[sys.argv[2]], 3 if "--quick" in sys.argv else 30
    steps = round(SLICE_SECONDS / (case.seconds + 0.003))
    found: dict[str, Any] = {}
    with probe().paused():
        compute(case.seconds)
        for peer in (tensorboard, profiler):
            found[peer.__name__] = peer(case, steps, pairs)
            write(Path(sys.argv[1]), found)


if __name__ == "__main__":
    main()
