"""A model of the user's own under `tfscale-train run`, as the page about training has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tfscale.core.comparison.program_files import named_code
from tfscale.trainer.launch.result import read_result
from training.train_command import left, run_train

PAGE = Path(__file__).parents[3] / "docs/how-to/train.md"
WORDS = "--strategy", "multi-worker", "--steps", "100", "--json", "result.json"


@pytest.mark.slow
def test_two_workers_train_the_model_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("points.py").write_text(code)
    Path("my_model.py").write_text("from points import BATCH, LEARNING_RATE, METRICS, build_model, examples, loss\n")
    assert run_train("./my_model.py", *WORDS).returncode == 2
    ended = run_train("./points.py", *WORDS)
    assert ended.returncode == 0, ended.stderr
    result = read_result(Path("result.json"))
    assert result.program == "points" and result.accuracy["accuracy"] > 0.85 and left(ended.stderr) == []
    assert tuple(result.files) == named_code(["points.py"])


@pytest.mark.slow
def test_a_fault_of_the_model_is_told_as_the_task_met_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("points.py").write_text(code.replace("def build_model(keras)", "def build_model()"))
    ended = run_train("./points.py")
    assert ended.returncode == 1
    assert "worker:0 ended early: TypeError: build_model() takes 0 positional arguments but 1 was given" in ended.stderr
