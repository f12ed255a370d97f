"""Resumption of a run from its newest checkpoint, after a check that all workers see the same checkpoint."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.launch.plan import Plan
from tfscale.trainer.saving.checkpoints import Checkpoints
from tfscale.trainer.saving.event_files import EventFiles
from tfscale.trainer.training.loops import Course


def open_checkpoints(plan: Plan, model: Any, optimizer: Any, keeps: bool) -> Checkpoints:
    """Open the checkpoints of a run; `keeps` tells whether this task's are kept. Raises UsageError."""
    try:
        return Checkpoints(plan.checkpoints, model, optimizer, keeps)
    except ValueError as error:
        raise UsageError(f"--checkpoints {plan.checkpoints}: {error}") from None


def resume(plan: Plan, strategy: Any, checkpoints: Checkpoints, events: EventFiles) -> Course:
    """Restore the newest checkpoint, and return the steps that are left to make. Raises UsageError."""
    begin = checkpoints.step
    if plan.checkpoints is not None and strategy.num_replicas_in_sync > 1:
        # Before anything else is refused here: a worker that has seen another checkpoint would wait for this one.
        mean, mean_square = _mean(strategy, begin), _mean(strategy, begin**2)
        if mean_square != mean**2:
            raise UsageError(f"--checkpoints {plan.checkpoints}: not the same for all workers, name a shared folder")
    if begin >= plan.steps:
        raise UsageError(f"--checkpoints {plan.checkpoints}: has made {begin} of --steps {plan.steps}, ask for more")
    try:
        checkpoints.restore()
    except ValueError as error:
        raise UsageError(f"--checkpoints {plan.checkpoints}: {error}") from None

    def after_epoch(step: int, loss: float) -> None:
        checkpoints.save(step)
        events.epoch(step, loss)

    return Course(plan.steps - begin, begin, after_epoch)


def _mean(strategy: Any, number: int) -> float:
    """Return the mean over all replicas of a number that each task has."""
    of_replicas = strategy.run(lambda: tf.constant(number, tf.float64))
    return float(strategy.reduce("mean", of_replicas, axis=None))
