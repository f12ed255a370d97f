"""A program of the user's own: a file that has what a program has, or one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfscale.trainer import cli
from tfscale.trainer.launch.own_program import own_program

WHOLE = """
import numpy as np
import beside
from packages.part import other

BATCH = 64
LEARNING_RATE = 0.001
METRICS = ()

def examples(seed): ...
def build_model(keras): ...
def loss(keras): ...
def main(): ...
"""
NAMES = (
    "tfscale-train takes a model from examples(seed), build_model(keras), loss(keras) and its numbers from BATCH, "
    "LEARNING_RATE, METRICS, as literals; a whole script runs as it is: tfscale-agent -- python model.py; "
    "compare, batch and scale take it after --, too: -- python model.py"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    (tmp_path / "beside.py").touch()
    (tmp_path / "packages").mkdir()
    return tmp_path


def test_it_has_the_name_of_the_file_and_needs_what_the_file_imports_from_elsewhere(folder: Path) -> None:
    (folder / "my_model.py").write_text(WHOLE)
    entry = own_program("./my_model.py")
    assert entry.name == "my_model" and entry.constants["NEEDS"] == ("numpy",) and entry.constants["BATCH"] == 64


@pytest.mark.parametrize(
    ("word", "text", "line"),
    [
        ("model.py", None, "model.py: cannot be read (No such file or directory)"),
        ("./model", "", "./model: is neither a program of tfscale-train nor a file that ends in .py"),
        ("model.py", "x = 1\ndef (", "model.py, line 2: invalid syntax"),
        ("my model.py", WHOLE, "my model.py: name must be letters, digits, '_', and after the first also '.' and '-'"),
        ("model.py", "model = ...", "model.py defines no examples, build_model, loss, BATCH, LEARNING_RATE, METRICS: "),
        ("model.py", WHOLE.replace("= 64", "= 8 * 8"), f"model.py defines no BATCH: {NAMES}"),
        ("model.py", WHOLE.replace("= 64", "= 0"), "model.py: BATCH is 0: BATCH is to be"),
        (
            "model.py",
            WHOLE.replace("= ()", '= "accuracy"'),
            "model.py: METRICS is 'accuracy': BATCH",
        ),
        ("model.py", WHOLE + "import not_there\n", "model.py: not_there is not installed here"),
    ],
)
def test_another_file_is_refused_in_one_line_before_anything_is_started(
    folder: Path, capsys: pytest.CaptureFixture[str], word: str, text: str | None, line: str
) -> None:
    if text is not None:
        (folder / word).write_text(text)
    assert cli.main(["run", word, "--strategy", "mirrored"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tfscale-train: {line}") and said.count("\n") == 1
