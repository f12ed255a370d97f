"""Winner of a place that the chief and another worker write to, in each order of events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("tensorflow")
from tfscale.trainer.compat.keras3 import shared_places

Write = Callable[[str, Path, str], None]


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a file as a task does."""
    monkeypatch.setattr(shared_places, "_put", {})
    monkeypatch.setattr(shared_places, "_kept", {})
    monkeypatch.setattr(shared_places, "_owned", {})

    def as_task(role: str, path: Path, text: str) -> None:
        extended = SimpleNamespace(should_checkpoint=role == "chief", _task_type=role, _task_id=1)
        cluster: Any = SimpleNamespace(extended=extended)
        monkeypatch.setattr(shared_places, "_cluster", cluster)
        if text:
            with shared_places.apart(str(path)) as place:
                Path(place).write_text(text)

    return as_task


def test_the_chiefs_file_stays_whoever_comes_first(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "model"
    write("worker", path, "1 of the worker")
    write("chief", path, "1 of the chief")
    write("worker", path, "2 of the worker")
    assert path.read_text() == "1 of the chief"
    assert Path(shared_places.newest(str(path))).read_text() == "2 of the worker", "the chief's is still to come"
    time.sleep(0.02)
    write("chief", path, "2 of the chief")
    write("worker", path, "")
    assert Path(shared_places.newest(str(path))).read_text() == "2 of the chief"


def test_a_worker_replaces_its_own_file_and_that_of_an_earlier_run(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("of an earlier run")
    os.utime(path, (1.0, 1.0))
    for text in ("first", "second"):
        write("worker", path, text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_worker_left_behind_goes_and_what_the_chief_writes_stays(write: Write, tmp_path: Path) -> None:
    left, chiefs = tmp_path / ".tfscale-worker-1-abc", tmp_path / ".tfscale-chief-1-abc"
    for folder in (left, chiefs):
        folder.mkdir()
        os.utime(folder, (1.0, 1.0))
    write("worker", tmp_path / "model", "text")
    assert not left.exists() and chiefs.exists()


def test_a_failed_write_leaves_what_was_there(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "model"
    write("chief", path, "whole")
    with pytest.raises(OSError, match="full"), shared_places.apart(str(path)) as place:
        Path(place).write_text("half")
        raise OSError("disk full")
    assert [path.read_text(), *tmp_path.iterdir()] == ["whole", path]


def test_a_folder_is_written_into_file_by_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "mine").touch()
    write("chief", tmp_path, "")
    with shared_places.apart(str(tmp_path / "exported")) as place:
        Path(place).mkdir()
        (Path(place) / "saved_model.pb").touch()
    assert {path.name for path in (tmp_path / "exported").iterdir()} == {"mine", "saved_model.pb"}


def test_a_claim_of_an_earlier_run_counts_for_nothing(write: Write, tmp_path: Path) -> None:
    write("chief", tmp_path, "")
    for name in ("old", "new"):
        shared_places.claim(str(tmp_path / name))
    os.utime(tmp_path / ".tfscale-chief-old", (1.0, 1.0))
    assert [shared_places.is_own(str(tmp_path / name)) for name in ("old", "new", "other")] == [True, False, True]
