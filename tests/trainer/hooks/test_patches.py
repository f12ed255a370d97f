"""Hooks are put in place by feature, and taken back together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tfscale.trainer.feature import Feature
from tfscale.trainer.probe.hooks.patches import Patches

METHODS = Feature("nothing", "tensorflow.internals:Kind.own(self)\ntensorflow.internals:Kind.inherited(self)")
FUNCTION = Feature("nothing", "tensorflow.internals:function()")
MISSING = Feature("no way", "tensorflow.internals:function()\ntensorflow.internals:gone")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Base:
        def inherited(self) -> str:
            return "inherited"

    class Kind(Base):
        def own(self) -> str:
            return "own"

    module: Any = ModuleType("tensorflow.internals")
    module.Kind, module.function = Kind, lambda: "function"
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    monkeypatch.setitem(sys.modules, "tensorflow.internals", module)
    return module


def hooked(method: Callable[..., str], *args: Any) -> str:
    return f"hooked {method(*args)}"


def test_everything_is_as_it_was_once_it_is_taken_back(module: Any) -> None:
    namespaces = dict(vars(module.Kind)), dict(vars(module))
    patches = Patches(on_fault=pytest.fail)
    assert patches.put(METHODS, {"Kind.own": hooked, "Kind.inherited": hooked})
    assert patches.put(FUNCTION, {"function": hooked})
    assert (module.Kind().own(), module.function()) == ("hooked own", "hooked function")
    assert module.Kind().inherited() == "hooked inherited"
    patches.undo()
    assert (dict(vars(module.Kind)), dict(vars(module))) == namespaces


def test_a_feature_with_a_missing_name_is_left_out_and_told(module: Any) -> None:
    faults: list[str] = []
    patches = Patches(on_fault=faults.append)
    assert not patches.put(MISSING, {"function": hooked})
    assert faults == ["does not fit: no way: TensorFlow has no gone; install TensorFlow 2.21"]
    assert module.function() == "function"
    assert patches.put(METHODS, {"Kind.own": hooked})


def test_what_others_have_wrapped_meanwhile_stays_theirs_and_no_longer_calls_the_hook(module: Any) -> None:
    patches = Patches(on_fault=pytest.fail)
    patches.put(FUNCTION, {"function": hooked})
    ours = module.function
    theirs = module.function = lambda: f"their {ours()}"
    patches.undo()
    assert module.function is theirs
    assert module.function() == "their function"


def test_nothing_is_put_in_place_any_more(module: Any) -> None:
    patches = Patches(on_fault=pytest.fail)
    patches.undo()
    assert not patches.put(FUNCTION, {"function": hooked})
    assert module.function() == "function"
