"""The three ways to make the steps: `fit`, a custom loop, and the loop of a parameter server's coordinator."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import tensorflow as tf
from tfscale.trainer.probe.entry.attach import attached
from tfscale.trainer.training.parts import Parts

KEPT = 100_000
"""Newest losses that are kept: a demo trains without end, and all losses would fill its memory."""
EPOCH = 100
"""Approximate steps of an epoch: all epochs of a run have as many."""

Losses = list[tuple[int, float]]
AfterEpoch = Callable[[int, float], None]
"""Function of the number of steps that have been made, and of the epoch's mean loss."""
AfterStep = Callable[[int], None]
"""Function of the number of steps that have been made; called outside of the graph."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Losses and times of the steps of a loop."""

    losses: Losses
    """Losses, each with its number of steps, from 1 on."""
    seconds: float
    first_steps: int
    """Steps before the rate is measured: the first, or the first epoch where a step's end is not seen."""
    first_steps_seconds: float | None
    steps_per_second: float | None
    """Rate after the first steps; None if there were no more."""


def epochs_of(steps: int, fewest: int = 1) -> tuple[int, int]:
    """Return the number of epochs, at least `fewest` where there are as many steps, and the steps of each.

    Fewer steps than there are epochs may be left over; they are a short epoch at the end.
    """
    epochs = min(max((steps + EPOCH // 2 - 1) // EPOCH, fewest), steps)
    return epochs, steps // epochs


def epochs(steps: int, fewest: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the number of steps made at the begin and at the end of each epoch."""
    number, length = epochs_of(steps, fewest)
    for begin in range(0, number * length, length):
        yield begin, begin + length
    if number * length < steps:
        yield number * length, steps


class Stopwatch:
    """Times of a loop, from its making on."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._first: tuple[int, float] | None = None
        self._newest: tuple[int, float] | None = None

    def made(self, steps: int) -> None:
        """Count steps that have been made."""
        self._newest = (steps, time.perf_counter())
        self._first = self._first or self._newest

    def trained(self, losses: Losses, steps: int) -> Trained:
        """Return the times after the last step; the rate is that between the first note and the last."""
        seconds = time.perf_counter() - self._begin
        if self._first is None or self._newest is None:
            return Trained(losses, seconds, steps, None, None)
        (at, first), (last, end) = self._first, self._newest
        return Trained(losses, seconds, at, first - self._begin, (last - at) / (end - first) if last > at else None)


@dataclass(frozen=True, slots=True)
class Course:
    """Steps that a loop has to make."""

    steps: int
    begin: int = 0
    """Steps of this training that earlier runs have made."""
    after_epoch: AfterEpoch = lambda *_: None
    after_step: AfterStep | None = None

    def end_epoch(self, made: int, loss: float) -> None:
        """Print the mean loss of an epoch; `made` is the number of steps that this run has made."""
        print(f"step {self.begin + made}: mean loss {loss:.4f}", flush=True)
        self.after_epoch(self.begin + made, loss)

    def numbered(self, losses: Losses) -> Losses:
        """Return losses by the number of steps since the training's begin."""
        return [(self.begin + step, loss) for step, loss in losses]


def fit(keras: Any, model: Any, data: Any, course: Course, callbacks: list[Any], asynchronous: bool) -> Trained:
    """Train a compiled model by `fit`; `asynchronous` where steps end in no order, so that only epochs have a loss."""
    watch = Stopwatch()
    losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
    # The second epoch is the first of which the time says how fast the steps are.
    count, length = epochs_of(course.steps, 2 if asynchronous else 1)

    class Steps(keras.callbacks.Callback):  # type: ignore[misc]
        # Keras 3 then calls it beside the training, which does not wait for the loss of each step.
        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if not losses:
                watch.made(1)
            losses.append((batch + 1, logs["loss"]))

    class Epochs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, number: int, logs: Any = None) -> None:
            made, loss = min((number + 1) * length, course.steps), float(logs["loss"])
            if number < count:
                watch.made(made)
            if asynchronous:
                losses.append((made, loss))
            course.end_epoch(made, loss)

    # tf_keras refuses callbacks of each step under a parameter server.
    callbacks = [*([] if asynchronous else [Steps()]), Epochs(), *callbacks]
    model.fit(data, epochs=count, steps_per_epoch=length, callbacks=callbacks, verbose=0)
    if left := course.steps - count * length:
        # All epochs of one `fit` have as many steps. The order of examples begins anew in this one.
        model.fit(data, initial_epoch=count, epochs=count + 1, steps_per_epoch=left, callbacks=callbacks, verbose=0)
    known = [(number, float(loss)) for number, loss in losses]
    return watch.trained(course.numbered(known if asynchronous else of_each_step(known)), course.steps)


def of_each_step(means: Losses) -> Losses:
    """Return the loss of each step from Keras's means over the steps of an epoch; each epoch begins with step 1.

    With as many examples in each step, the k-th loss is k times the k-th mean less k-1 times the mean before.
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
    for begin, end in epochs(course.steps):
        for number in range(begin + 1, end + 1):
            losses.append((number, step(iterator)))
            _tell_probe(number, course.steps)
            if number == 1:
                watch.made(1)
            parts.after_step(strategy, model, course.begin + number)
            if course.after_step:
                course.after_step(course.begin + number)
        mean = fmean(float(loss) for _, loss in [*losses][begin - end :])
        watch.made(end)
        course.end_epoch(end, mean)
    return watch.trained(course.numbered([(number, float(loss)) for number, loss in losses]), course.steps)


def _tell_probe(made: int, steps: int) -> None:
    """Tell the probe, if there is one, how far the loop is: unlike `fit`, a loop tells nobody."""
    if (probe := attached()) is not None:
        probe.progress.loop_step_done(made, steps)
        if made == steps:
            probe.progress.ended()


def coordinated(strategy: Any, step: Any, dataset: Callable[[Any], Any], course: Course) -> Trained:
    """Train by scheduling steps on workers; a worker takes the next step as soon as it is free."""
    watch = Stopwatch()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function  # type: ignore[untyped-decorator]
    def per_worker() -> Any:
        return strategy.distribute_datasets_from_function(dataset)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker))
    losses: deque[tuple[int, float]] = deque(maxlen=KEPT)
    # As in `fit`: of a single epoch no rate would be known.
    for begin, end in epochs(course.steps, 2):
        scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(begin, end)]
        coordinator.join()
        _tell_probe(end, course.steps)
        watch.made(end)
        of_epoch = [float(value.fetch()) for value in scheduled]
        losses.extend((begin + count, loss) for count, loss in enumerate(of_epoch, 1))
        course.end_epoch(end, fmean(of_epoch))
    return watch.trained(course.numbered([*losses]), course.steps)
