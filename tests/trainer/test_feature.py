"""Private names, checked against a library that lacks some of them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from tfscale.trainer.feature import Absent, Feature, Name, find


class Base:
    def inherited(self, first: int, second: int = 0) -> None: ...


class Kind(Base):
    def __init__(self) -> None:
        self._set = 1

    def method(self, first: int) -> int:
        return self._only_read + first  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("tensorflow.internals")
    module.Kind, module.number = Kind, 3
    root: Any = ModuleType("tensorflow")
    root.__version__ = "2.99"
    monkeypatch.setitem(sys.modules, "tensorflow", root)
    monkeypatch.setitem(sys.modules, "tensorflow.internals", module)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tensorflow.internals:number", None),
        ("tensorflow.internals:Kind.method(self, first)", None),
        ("tensorflow.internals:Kind.inherited(self, first)", None),
        ("tensorflow.internals:Kind._set", None),
        ("tensorflow.internals:Kind._only_read", "has no Kind._only_read"),
        ("tensorflow.internals:Kind.gone", "has no Kind.gone"),
        ("tensorflow.internals:Other.method", "has no Other.method"),
        ("tensorflow.elsewhere:number", "has no number"),
        ("tensorflow.internals:Kind.method(self, second)", "has another Kind.method than (self, second)"),
        ("tensorflow.later|tensorflow.internals:New|Kind.method(self, first)", None),
        ("tensorflow.internals|tensorflow.later:New|Newer.method", "has no New or Newer.method"),
        ("tensorflow.internals:number(first)", "has another number than (first)"),
    ],
)
def test_a_name_is_as_expected_or_says_what_is_wrong(text: str, fault: str | None) -> None:
    assert Name.parse(text).fault() == fault


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="is no private name"):
        Name.parse("tensorflow.internals.Kind")


def test_a_feature_names_its_consequence_the_version_and_the_first_name_that_is_missing() -> None:
    feature = Feature(
        "steps not split",
        """
        tensorflow.internals:Kind.method(self)
        tensorflow.internals:Kind.gone
        tensorflow.internals:Kind.gone_too
        """,
    )
    assert feature.fault() == "steps not split: TensorFlow 2.99 has no Kind.gone; install TensorFlow 2.21"
    assert feature.note("steps not split") == "does not fit: steps not split"
    assert feature["Kind.method"].owner is Kind
    assert Feature("nothing", "tensorflow.internals:Kind.method(self)").fault() is None


def test_a_feature_is_due_by_the_import_of_the_one_module_that_the_installed_version_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feature = Feature("nothing", "keras.first|keras.second:Kind.method(self)")
    for module in ("keras", "keras.second"):
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert feature.is_due("keras.second") and not feature.is_due("keras")
    monkeypatch.setitem(sys.modules, "keras.first", ModuleType("keras.first"))
    assert feature.is_due("keras.first") and not feature.is_due("keras.second")


def test_nothing_is_an_instance_of_what_is_absent() -> None:
    assert find("tensorflow.internals:Kind") is Kind
    assert find("tensorflow.internals:Other") is Absent
    assert not isinstance(Kind(), find("tensorflow.internals:Other"))
