"""A Keras that lacks names: told with the version to install, and the script runs as it would without tfscale."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from task_cluster import run_program

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

PROGRAMS = Path(__file__).parents[1] / "programs"
RENAMED = {"_maybe_symbolic_build": "_build_by_symbols", "callbacks.csv_logger": "callbacks.csv_writer"}
"""A method that a repair replaces, and a module that another repair waits for."""
FIT = "fit of Keras under MultiWorkerMirroredStrategy not repaired: Keras 3.99.0 has no "


@pytest.fixture(scope="module")
def keras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables with which a script imports Keras 3.99.0."""
    spec = find_spec("keras")
    assert spec is not None and spec.origin is not None
    folder = tmp_path_factory.mktemp("made_up")
    shutil.copytree(Path(spec.origin).parent, folder / "keras", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "keras").rglob("*.py"):
        text = path.read_text()
        for old, new in RENAMED.items():
            text = text.replace(old, new)
        path.write_text(text)
    callbacks = folder / "keras" / "src" / "callbacks"
    (callbacks / "csv_logger.py").rename(callbacks / "csv_writer.py")
    version = folder / "keras" / "src" / "version.py"
    version.write_text(version.read_text() + '\n__version__ = "3.99.0"\n')
    return {"PYTHONPATH": str(folder)}


def test_what_it_lacks_is_told_in_the_headline_while_the_script_trains(keras: dict[str, str], tmp_path: Path) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAMS / "mirrored_fit.py"], {"worker": 1}, keras, 150)
    assert ran.exit_code("worker:0") == 0
    (told, *_) = ran.recording.told("not_fitting")
    assert told["sentence"].startswith(f"worker:0: {FIT}") and "; install Keras 3.15 (and " in told["sentence"]
    warnings = {note for frame in ran.recording.frames if frame["probe"] for note in frame["probe"]["warnings"]}
    assert any("CSV files that all workers write" in note and "Keras 3.99.0 has no" in note for note in warnings)
    assert len(ran.recording.steps["worker:0"]["sequence"]) == 300


def test_a_script_that_fails_for_want_of_a_repair_is_told_which_version_to_install(
    keras: dict[str, str], tmp_path: Path
) -> None:
    ran = run_program(tmp_path, [sys.executable, PROGRAMS / "keras_fit.py"], {"worker": 2}, keras, 150)
    assert {ran.exit_code(task) for task in ran.ending} == {1}
    (crash, *_) = ran.recording.told("crash")
    assert FIT in crash["sentence"] and "; install Keras 3.15" in crash["sentence"]
