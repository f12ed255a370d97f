"""Each commit has its turn of the environments of other versions, of those that can be made here."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ENVIRONMENTS = Path(__file__).parents[1] / "scripts" / "docs" / "environments.py"


def turns(monkeypatch: pytest.MonkeyPatch, folder: Path, pythons: dict[str, int]) -> set[str]:
    """Return what is run beside the newest builds at many commits, where these Pythons are found and end so."""
    for version, status in pythons.items():
        python = folder / f"python{version}"
        python.write_text(f"#!/bin/sh\nexit {status}\n")
        python.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    module: dict[str, Any] = runpy.run_path(str(ENVIRONMENTS))
    chosen = [module["turn"](f"{number:08x}{'0' * 32}\n") for number in range(20)]
    assert all(names[-1] == "tf-nightly" for names in chosen)
    return {name for names in chosen for name in names[:-1]}


def test_every_version_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = turns(monkeypatch, tmp_path, {"3.11": 0})
    older = {f"tf2.{minor}" for minor in (12, 13, 15, 16, 17, 18, 19, 20)}
    assert found == {*older, "keras-nightly"}


def test_a_version_whose_python_is_not_here_has_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns(monkeypatch, tmp_path, {"3.13": 0, "3.11": 127}) == {"tf2.20"}
    assert turns(monkeypatch, tmp_path, {"3.13": 127}) == set()
