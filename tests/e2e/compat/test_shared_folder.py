"""Files that two workers of Keras 3 write at one path: in a folder of both, and in a folder of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compat import in_scope

pytestmark = pytest.mark.tensorflow

GUIDE = {"guide.keras", "served"}
SAVED = {"latest.weights.h5", "latest.keras", "best.h5", "log.csv", "events", "model.keras", "model.weights.h5"}
EVERYTHING = SAVED | {"exported", "new"}


def run(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run the program with this folder, and return what each worker has found."""
    out = folder / "found"
    in_scope.run(folder, "shared_folder", "multi-worker", "keras 3", [f"{folder}/{place}", out], monkeypatch)
    workers = [json.loads((folder / f"found-{index}").read_text()) for index in range(2)]
    for found in workers:
        latest = found["checkpoints"]["trained"]
        assert found["checkpoints"]["read"][:2] == [latest, latest], "each reads the weights that it has just saved"
        assert found["saved"]["read"] == [found["saved"]["trained"]] * 2
        assert found["restored"]["epochs"] == [2, 3], "each goes on where the training was interrupted"
    assert [found["checkpoints"] for found in workers] == [workers[0]["checkpoints"]] * 2
    assert workers[0]["restored"]["trained"] == pytest.approx(latest, rel=1e-4), "the same as without interruption"
    assert set(workers[1]["saved"]["there"]) == GUIDE, "a script's own path for a worker has what it asked for"
    return workers


def events(folder: Path) -> set[int]:
    """Return the processes that have written events."""
    return {int(path.name.split(".")[-3]) for path in (folder / "events").rglob("*tfevents*")}


def epochs(folder: Path) -> list[str]:
    return [line.partition(",")[0] for line in (folder / "log.csv").read_text().splitlines()]


@pytest.mark.slow
def test_in_a_shared_folder_the_chiefs_files_are_whole_and_all_workers_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, folder = run(tmp_path, "shared", monkeypatch), tmp_path / "shared"
    assert {path.name for path in folder.iterdir()} == EVERYTHING | GUIDE, "nothing else is left"
    assert len(list((folder / "new").iterdir())) == 4
    assert events(folder) == {workers[0]["process"]}
    assert epochs(folder) == ["epoch", "0", "1", "2", "3"]


@pytest.mark.matrix
def test_a_worker_with_a_folder_of_its_own_has_all_files_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = run(tmp_path, "of-{index}", monkeypatch)
    for index, found in enumerate(workers):
        folder = tmp_path / f"of-{index}"
        assert {path.name for path in folder.iterdir()} == EVERYTHING | (set() if index else GUIDE)
        assert len(list((folder / "new").iterdir())) == 4
        assert events(folder) == {found["process"]}
        assert epochs(folder) == ["epoch", "0", "1", "2", "3"]
