"""Techniques of one run, joined: the functions that their modules define, each with its value.

docs/how-it-works/training.md has the table of these functions. Where no technique defines `gradients` or `exchange`,
the attribute is None, and a step does as it would without techniques.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any


class Parts:
    """Functions of the techniques of one run, bound to their values.

    Args:
        techniques: module and parsed value of each technique, in the order of the command line.
    """

    def __init__(self, techniques: Sequence[tuple[ModuleType, Any]] = ()) -> None:
        self._techniques = tuple(techniques)

    def prepare(self, keras: Any) -> None:
        """Call each `prepare`, before the strategy is made."""
        for prepare in self._all("prepare"):
            prepare(keras)

    def strategy_options(self) -> dict[str, Any]:
        """Return further arguments of the strategy's `create`."""
        return {name: option for options in self._all("strategy_options") for name, option in options().items()}

    def check(self, batch: int) -> None:
        """Call each `check`, and each `check_batch` with the examples of a replica's batch. Raises ValueError."""
        for check in self._all("check"):
            check()
        for check_batch in self._all("check_batch"):
            check_batch(batch)

    def learning_rate(self, rate: float, replicas: int, steps: int) -> Any:
        """Return the optimizer's learning rate: a number or a schedule."""
        chosen = self._one("learning_rate")
        return chosen(rate, replicas, steps) if chosen else rate

    def optimizer(self, keras: Any, optimizer: Any) -> Any:
        """Return the optimizer after each technique has had its turn."""
        for wrap in self._all("optimizer"):
            optimizer = wrap(keras, optimizer)
        return optimizer

    @property
    def gradients(self) -> Callable[..., Any] | None:
        """Function of (model, loss_of, features, labels) that returns loss and gradients of a replica."""
        return self._one("gradients")

    @property
    def exchange(self) -> Callable[..., Any] | None:
        """Function of (gradients) in the place of the all-reduce."""
        return self._one("exchange")

    @property
    def has_after_step(self) -> bool:
        """True where a technique is to be called after each step."""
        return any(True for _ in self._all("after_step"))

    def after_step(self, strategy: Any, model: Any, step: int) -> None:
        """Call each `after_step`, outside of the graph; `step` is the number of steps that have been made."""
        for call in self._all("after_step"):
            call(strategy, model, step)

    def _all(self, function: str) -> Iterator[Callable[..., Any]]:
        for module, value in self._techniques:
            if hasattr(module, function):
                yield functools.partial(getattr(module, function), value)

    def _one(self, function: str) -> Callable[..., Any] | None:
        """Return the function that at most one technique defines; the plan has refused a second."""
        return next(self._all(function), None)
