"""The three ways to make the steps: `fit`, a loop of one's own, and the loop of a parameter server's coordinator."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tfscale.trainer.training.parts import Parts

KEPT = 100_000
"""Losses that are kept; a demo trains without end."""
EPOCH = 100
"""Steps of an epoch, where it divides the steps of the run."""

Losses = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Trained:
    """Losses and times of the steps of a loop."""

    losses: Losses
    """Number of steps until then, from 1, and loss."""
    seconds: float
    first_step_seconds: float | None
    steps_per_second: float | None
    """Rate after the first step; None where no step can be told from the next."""


def epoch_of(steps: int) -> int:
    """Return the number of steps in an epoch."""
    return steps if steps % EPOCH else EPOCH


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
            return Trained(losses, now - self._begin, None, None)
        at, first = self._first
        return Trained(
            losses, now - self._begin, first - self._begin, (steps - at) / (now - first) if steps > at else None
        )


def fit(keras: Any, model: Any, data: Any, steps: int, callbacks: list[Any], asynchronous: bool) -> Trained:
    """Train a compiled model by `fit`; `asynchronous` where steps end in no order, so that only epochs have a loss."""
    watch = Stopwatch()
    losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
    epoch = epoch_of(steps)

    class Steps(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        # Keras 3 then calls it beside the training, which does not wait for the loss of each step.
        async_safe = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if not asynchronous:
                watch.made(1)
                losses.append((batch + 1, logs["loss"]))

        def on_epoch_end(self, number: int, logs: Any = None) -> None:
            if asynchronous:
                watch.made((number + 1) * epoch)
                losses.append(((number + 1) * epoch, logs["loss"]))

    model.fit(data, epochs=steps // epoch, steps_per_epoch=epoch, callbacks=[Steps(), *callbacks], verbose=2)
    known = [(number, float(loss)) for number, loss in losses]
    return watch.trained(known if asynchronous else of_each_step(known), steps)


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


def custom(strategy: Any, step: Any, data: Any, steps: int, parts: Parts, model: Any) -> Trained:
    """Train by a loop that calls `step` with an iterator of distributed data."""
    watch = Stopwatch()
    losses: deque[tuple[int, Any]] = deque(maxlen=KEPT)
    iterator = iter(data)
    for number in range(1, steps + 1):
        losses.append((number, step(iterator)))
        watch.made(1)
        parts.after_step(strategy, model, number)
        if number % EPOCH == 0:
            print(f"step {number}: loss {float(losses[-1][1]):.4f}")
    return watch.trained([(number, float(loss)) for number, loss in losses], steps)


def coordinated(
    strategy: Any, step: Any, dataset: Callable[[Any], Any], steps: int, after_epoch: Callable[[int], None]
) -> Trained:
    """Train by scheduling steps on workers; a worker takes the next one as soon as it is free."""
    watch = Stopwatch()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def per_worker() -> Any:
        return strategy.distribute_datasets_from_function(dataset)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker))
    losses: deque[tuple[int, float]] = deque(maxlen=KEPT)
    epoch = epoch_of(steps)
    for begin in range(0, steps, epoch):
        scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(epoch)]
        coordinator.join()
        watch.made(begin + epoch)
        losses.extend((begin + count + 1, float(value.fetch())) for count, value in enumerate(scheduled))
        print(f"step {begin + epoch}: loss {losses[-1][1]:.4f}")
        after_epoch(begin + epoch)
    return watch.trained(list(losses), steps)
