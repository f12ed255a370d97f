"""Techniques of a run, put together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tfscale.trainer.training.parts import Parts


def technique(**functions: Any) -> Any:
    return SimpleNamespace(**functions)


def test_without_techniques_all_is_as_it_was() -> None:
    parts = Parts()
    assert parts.learning_rate(0.1, 2, 100) == 0.1 and parts.optimizer(None, "adam") == "adam"
    assert (parts.gradients, parts.exchange, parts.has_after_step, parts.strategy_options()) == (None, None, False, {})


def test_each_function_gets_the_value_of_its_technique_first() -> None:
    called: list[Any] = []
    scaled = technique(
        learning_rate=lambda value, rate, replicas, steps: rate * replicas * value + steps,
        prepare=lambda *arguments: called.append(arguments),
        strategy_options=lambda value: {"packs": value},
    )
    wrapped = technique(
        optimizer=lambda value, _, optimizer: f"{optimizer}+{value}",
        gradients=lambda value, model, *_: (value, model),
        exchange=lambda value, gradients: gradients[:value],
        after_step=lambda *arguments: called.append(arguments),
    )
    parts = Parts([(scaled, 3), (wrapped, 2)])
    assert parts.learning_rate(0.5, 2, 10) == 13 and parts.strategy_options() == {"packs": 3}
    assert parts.gradients is not None and parts.exchange is not None
    assert parts.gradients("model", None, None, None) == (2, "model") and parts.exchange([1, 2, 3]) == [1, 2]
    parts.prepare("keras")
    parts.after_step("strategy", "model", 7)
    assert called == [(3, "keras"), (2, "strategy", "model", 7)] and parts.has_after_step


def test_optimizers_are_wrapped_in_the_order_of_the_command_line() -> None:
    first, second = (technique(optimizer=lambda value, _, optimizer: f"{value}({optimizer})") for _ in range(2))
    assert Parts([(first, "a"), (second, "b")]).optimizer(None, "adam") == "b(a(adam))"
