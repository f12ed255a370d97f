"""State of the screen that the console keeps from one start to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfscale.console.settings.view_state import View, ViewFile, state_path


def test_what_was_chosen_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "tfscale" / "console.json"
    chosen = View(("task", "step", "heat"), "heat", True, "host", "tfscale-light", "gpu")
    ViewFile.at(path).keep(chosen)
    assert ViewFile.at(path).view == chosen
    assert [path.name for path in path.parent.iterdir()] == ["console.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"columns": 3, "sort": ["a"], "is_reversed": "yes", "more": 1}', "\xff"]
)
def test_a_file_that_cannot_be_read_is_nothing_chosen(tmp_path: Path, text: str) -> None:
    path = tmp_path / "console.json"
    path.write_bytes(text.encode("latin-1"))
    assert ViewFile.at(path).view == View()


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    view_file = ViewFile()
    view_file.keep(View(sort="lag"))
    assert view_file.view.sort == "lag" and list(tmp_path.iterdir()) == []


def test_it_is_state_and_no_configuration() -> None:
    assert state_path({"XDG_STATE_HOME": "/s"}) == Path("/s/tfscale/console.json")
    assert state_path({}).name == "console.json"
