"""Calls after the import of modules that concern the probe."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.trainer.probe.entry import imports

NAMES = ("tfscale_imported_before", "tfscale_imported_later")


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write two modules that concern the probe, the first of which is imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "MODULES", NAMES)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    importlib.import_module(NAMES[0])
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def test_a_module_is_attached_to_once_it_has_run() -> None:
    attached: list[tuple[str, int]] = []
    imports.after_import(lambda name: attached.append((name, sys.modules[name].VALUE)))
    assert attached == [(NAMES[0], 1)]
    importlib.import_module(NAMES[1])
    assert attached == [(NAMES[0], 1), (NAMES[1], 1)]


def test_a_question_where_a_module_is_does_not_count_as_its_import() -> None:
    attached: list[str] = []
    imports.after_import(attached.append)
    assert importlib.util.find_spec(NAMES[1]) is not None
    importlib.import_module(NAMES[1])
    assert attached == [*NAMES]


def test_a_probe_that_cannot_start_stops_no_import(capsys: pytest.CaptureFixture[str]) -> None:
    def attach(_: str) -> None:
        raise RuntimeError("broken on purpose")

    imports.after_import(attach)
    assert importlib.import_module(NAMES[1]).VALUE == 1
    assert capsys.readouterr().err.count("broken on purpose") == 2
