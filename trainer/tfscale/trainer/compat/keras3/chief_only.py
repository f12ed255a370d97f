"""Stand-in for ParameterServerStrategy with which Keras 3 computes on the chief: `predict`, and exact `evaluate`.

Workers repeat and shuffle data at their own pace, so together they do not process each example exactly once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class ChiefOnlyStrategy:
    """Part of a strategy that Keras's trainer uses: everything runs here, and variables stay on the servers."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy

    def scope(self) -> Any:
        return self._strategy.scope()

    def run(self, function: Callable[..., Any], args: tuple[Any, ...] = ()) -> Any:
        return function(*args)

    def experimental_distribute_dataset(self, dataset: Any) -> Any:
        return dataset

    def experimental_local_results(self, value: Any) -> tuple[Any]:
        return (value,)


@contextlib.contextmanager
def on_the_chief(model: Any) -> Iterator[ChiefOnlyStrategy]:
    """Let the model's trainer use a `ChiefOnlyStrategy` in place of its strategy; may be nested."""
    before = model.__dict__.get("_tfscale_chief")
    chief = before or ChiefOnlyStrategy(model._distribute_strategy)
    model.__dict__["_tfscale_chief"] = chief
    try:
        yield chief
    finally:
        model.__dict__["_tfscale_chief"] = before


def strategy_of(model: Any) -> Any:
    """Return the strategy that the trainer is to use for the model now."""
    return model.__dict__.get("_tfscale_chief") or model._distribute_strategy or tf.distribute.get_strategy()
