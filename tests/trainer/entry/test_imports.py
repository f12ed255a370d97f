"""Calls after the import of modules that concern the probe."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from tfscale.trainer.probe.entry import imports

NAMES = ("tfscale_imported_before", "tfscale_imported_later")
MAPS = Path("/proc/self/maps")


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


class Editable:
    """Finder of a package that is installed to be edited, in the place of which PathFinder knows nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self._path) if name == NAMES[1] else None


class Asking:
    """Finder that asks all others once more, as that of wrapt does."""

    _is_asking = False

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != NAMES[1] or self._is_asking:
            return None
        self._is_asking = True
        try:
            return importlib.util.find_spec(name)
        finally:
            self._is_asking = False


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_module_that_another_finder_finds_is_attached_to_once(tmp_path: Path, is_moved: bool) -> None:
    attached: list[str] = []
    if is_moved:
        moved = (tmp_path / f"{NAMES[1]}.py").rename(tmp_path / "moved.py")
        sys.meta_path.append(Editable(moved))  # type: ignore[arg-type]
    else:
        sys.meta_path.insert(0, Asking())  # type: ignore[arg-type]
    imports.after_import(attached.append)
    importlib.import_module(NAMES[1])
    assert attached == [*NAMES]


def test_the_import_of_tensorflow_shows_in_the_maps_unless_the_probe_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_shown() -> bool:
        return imports.__file__ in MAPS.read_text()

    monkeypatch.setattr(imports, "_TENSORFLOW", NAMES[1])
    shown: list[bool] = []
    imports.after_import(lambda _: shown.append(is_shown()))
    assert not is_shown()
    importlib.import_module(NAMES[1])
    assert shown == [False, True] and is_shown()
    imports._hide()
    assert not is_shown()
