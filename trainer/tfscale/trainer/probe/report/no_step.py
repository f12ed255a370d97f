"""Sentence about a program that ends well without a step."""

from __future__ import annotations

import sys

from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.log_clues import UNTRAINED
from tfscale.core.records.probe_status import ProbeState
from tfscale.trainer.probe.report.status import Status


def no_step(status: Status, has_fit: bool, has_run: bool, trains: bool) -> str | None:
    """Return the sentence about a program without steps; None where it has steps or was not meant to have any.

    A program that only evaluates, predicts or saves a model has no steps. Nor are steps seen of a loop without a
    strategy that applies gradients by hand.

    Args:
        status: the newest one.
        has_fit: whether Keras's `fit` was called.
        has_run: whether anything was run or traced.
        trains: whether gradients were computed.
    """
    if status.record.state is not ProbeState.WAITING or hasattr(sys, "last_value"):
        return None  # Python sets this where an error ends the script.
    strategy = status.distribution.strategy if status.distribution else None
    has_strategy = strategy is not None and strategy != DEFAULT.name
    if not (has_fit or (has_strategy and (trains or not (has_run or status.checkpoint)))):
        return None
    return f"{UNTRAINED}its script made no step: is its data set empty, or does a path match no file? See its log"
