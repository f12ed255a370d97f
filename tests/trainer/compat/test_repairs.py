"""Each repair is put in place alone, or left out alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_a_repair_whose_names_are_missing_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfscale.trainer.compat import repairs
    from tfscale.trainer.feature import Feature

    did: list[str] = []
    there = Feature("nothing", "tensorflow.python.framework.ops:Operation")
    missing = Feature("fit not repaired", "tensorflow.python.framework.ops:Gone")
    table = ((there, lambda _: did.append("first")), (missing, did.append), (there, lambda _: did.append("last")))
    monkeypatch.setattr(repairs, "REPAIRS", table)
    module: Any = SimpleNamespace(__name__="tensorflow")
    monkeypatch.setattr(repairs, "_PUBLIC", {})
    faults: list[str] = []
    repairs.repair(module, on_fault=faults.append)
    assert did == ["first", "last"]
    (fault,) = faults
    assert fault.startswith("does not fit: fit not repaired: TensorFlow ") and fault.endswith(
        " has no Gone; install TensorFlow 2.21"
    )


def test_most_modules_need_no_repair() -> None:
    from tfscale.trainer.compat import repairs

    module: Any = SimpleNamespace(__name__="json")
    repairs.repair(module, on_fault=pytest.fail)


def test_every_module_that_is_repaired_is_waited_for() -> None:
    from tfscale.trainer.compat import repairs
    from tfscale.trainer.probe.entry.imports import MODULES

    repaired = {module for feature, _ in repairs.REPAIRS for module in feature.modules}
    assert {*repaired, *repairs._PUBLIC} <= set(MODULES)
