"""The three ways to make the steps: `fit`, a loop of one's own, and the loop of a parameter server's coordinator."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import tensorflow as tf
from tfscale.trainer.training.parts import Parts

KEPT = 100_000
"""Losses that are kept; a demo trains without end."""
EPOCH = 100
"""Steps of an epoch, or the divisor of all steps that is nearest to it."""
FEWEST, MOST = 50, 200
"""Steps of an epoch, if the steps of the run have a divisor between them."""

Losses = list[tuple[int, float]]
AfterEpoch = Callable[[int, float], None]
"""Function of the number of steps that have been made, and of the epoch's mean loss."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Losses and times of the steps of a loop."""

    losses: Losses
    """Number of steps until then, from 1, and loss."""
    seconds: float
    first_steps: int
    """Steps before the rate is measured: the first, or the first epoch where a step's end is not seen."""
    first_steps_seconds: float | None
    steps_per_second: float | None
    """Rate after them; None where there were no more."""


def epoch_of(steps: int) -> int:
    """Return the number of steps in an epoch."""
    return min(
        (number for number in range(FEWEST, MOST + 1) if steps % number == 0),
        key=lambda number: abs(number - EPOCH),
        default=steps,
    )


class Stopwatch:
    """Times of a loop, from its making on."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._first: tuple[int, float] | None = None

    def made(self, steps: int) -> None:
        """Note that so many steps have been made; only the first note counts."""
        self._first = self._first or (steps, time.perf_counter())

    def trained(self, losses: Losses, steps: int) -> Trained:
        """Return the times after the last step."""
        now = time.perf_counter()
        if self._first is None:
            return Trained(losses, now - self._begin, steps, None, None)
        at, first = self._first
        rate = (steps - at) / (now - first) if steps > at else None
        return Trained(losses, now - self._begin, at, first - self._begin, rate)


@dataclass(frozen=True, slots=True)
class Course:
    """Steps that a loop has to make."""

    steps: int
    begin: int = 0
    """Steps that an earlier run has made of the same training."""
    after_epoch: AfterEpoch = lambda *_: None

    @property
    def epoch(self) -> int:
        """Number of steps in an epoch."""
        return epoch_of(self.steps)

    def end_epoch(self, made: int, loss: float) -> None:
        """Tell the mean loss of an epoch, which ends after so many steps of this run."""
        print(f"step {self.begin + made}: mean loss {loss:.4f}", flush=True)
        self.after_epoch(self.begin + made, loss)

    def numbered(self, losses: Losses) -> Losses:
        """Return losses by the number of steps since the training's begin."""
        return [(self.begin + step, loss) for step, loss in losses]


def fit(keras: Any, model: Any, data: Any, course: Course, callbacks: list[Any], asynchronous: bool) -> Trained:
    """Train a compiled model by `fit`; `asynchronous` where steps end in no order, so that only epochs have a loss."""
    watch = Stopwatch()
    losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
    epoch = course.epoch

    class Steps(keras.callbacks.Callback):  # type: ignore[misc]
        # Keras 3 then calls it beside the training, which does not wait for the loss of each step.
        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            watch.made(1)
            losses.append((batch + 1, logs["loss"]))

    class Epochs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, number: int, logs: Any = None) -> None:
            made, loss = (number + 1) * epoch, float(logs["loss"])
            if asynchronous:
                watch.made(made)
                losses.append((made, loss))
            course.end_epoch(made, loss)

    # tf_keras refuses callbacks of each step under a parameter server.
    callbacks = [*([] if asynchronous else [Steps()]), Epochs(), *callbacks]
    model.fit(data, epochs=course.steps // epoch, steps_per_epoch=epoch, callbacks=callbacks, verbose=0)
    known = [(number, float(loss)) for number, loss in losses]
    return watch.trained(course.numbered(known if asynchronous else of_each_step(known)), course.steps)


def of_each_step(means: Losses) -> Losses:
    """Return the loss of each step of Keras's means since the epoch's begin, which restarts with step 1.

    With as many examples in each step, the k-th loss is k times the k-th mean less k-1 times the one before.
    """
    losses: Losses = []
    before = 0.0
    for step, (number, mean) in enumerate(means, 1):
        total = number * mean
        losses.append((step, total - (before if number > 1 else 0.0)))
        before = total
    return losses


def custom(strategy: Any, step: Any, data: Any, course: Course, parts: Parts, model: Any) -> Trained:
    """Train by a loop that calls `step` with an iterator of distributed data."""
    watch = Stopwatch()
    losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
    iterator = iter(data)
    epoch = course.epoch
    for number in range(1, course.steps + 1):
        losses.append((number, step(iterator)))
        watch.made(1)
        parts.after_step(strategy, model, course.begin + number)
        if number % epoch == 0:
            course.end_epoch(number, fmean(float(loss) for _, loss in [*losses][-epoch:]))
    return watch.trained(course.numbered([(number, float(loss)) for number, loss in losses]), course.steps)


def coordinated(strategy: Any, step: Any, dataset: Callable[[Any], Any], course: Course) -> Trained:
    """Train by scheduling steps on workers; a worker takes the next one as soon as it is free."""
    watch = Stopwatch()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function  # type: ignore[untyped-decorator]
    def per_worker() -> Any:
        return strategy.distribute_datasets_from_function(dataset)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker))
    losses: deque[tuple[int, float]] = deque(maxlen=KEPT)
    epoch = course.epoch
    for begin in range(0, course.steps, epoch):
        scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(epoch)]
        coordinator.join()
        watch.made(begin + epoch)
        of_epoch = [float(value.fetch()) for value in scheduled]
        losses.extend((begin + count, loss) for count, loss in enumerate(of_epoch, 1))
        course.end_epoch(begin + epoch, fmean(of_epoch))
    return watch.trained(course.numbered([*losses]), course.steps)
