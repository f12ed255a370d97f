"""Programs, strategies and techniques as they are found by folder."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tfscale.core.errors import UsageError
from tfscale.trainer import cli
from tfscale.trainer.launch.catalogue import NAMES, entries, find, read_entry

PAGE = Path(__file__).parents[3] / "docs/how-it-works/training.md"


def test_a_file_in_the_folder_is_an_entry_by_its_name_and_first_line(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "word_count.py").write_text(
        '"""Words, counted.\n\nAt length."""\nimport numpy\nfrom other import loss as loss\nBATCH = 8\n'
        "STRATEGIES = ('mirrored',)\nNOW = numpy.nan\n\ndef examples(seed): ...\n"
    )
    (tmp_path / "programs" / "_hidden.py").write_text("")
    (entry,) = entries("program", tmp_path).values()
    assert (entry.kind, entry.name, entry.summary) == ("program", "word-count", "Words, counted.")
    assert entry.constants == {"BATCH": 8, "STRATEGIES": ("mirrored",)}
    assert entry.functions == {"loss", "examples"}


def test_reading_imports_no_tensorflow() -> None:
    script = (
        "import sys; from tfscale.trainer import cli; cli.main(['list'])\n"
        "assert not {'tensorflow', 'numpy', 'sklearn'} & set(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert len(ended.stdout.splitlines()) >= 13


@pytest.mark.parametrize(("program", "package"), [("digits", "sklearn"), ("backup-workers", "sklearn")])
def test_a_package_that_is_missing_is_told_before_a_cluster_is_started(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else there(name))
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cli.main(["run", program]) == 2
    assert capsys.readouterr().err == f"tfscale-train: {package} is not installed here: pip install 'tfscale[demo]'\n"


MISSING = """
import importlib, json, sys
from tfscale.trainer.launch.catalogue import entries
sys.modules["sklearn"] = sys.modules["sklearn.datasets"] = None
needing = []
for entry in entries("program").values():
    try:
        importlib.import_module(f"tfscale.trainer.{entry.folder}.{entry.name.replace('-', '_')}")
    except ModuleNotFoundError:
        needing.append(entry.name)
print(json.dumps(needing))
"""


@pytest.mark.tensorflow
def test_the_programs_that_cannot_be_imported_without_scikit_learn_are_those_that_say_so() -> None:
    """A program may need it by way of another, as backup-workers by digits."""
    ended = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, timeout=240, check=True)
    needing = [name for name, entry in entries("program").items() if "sklearn" in entry.constants.get("NEEDS", ())]
    assert json.loads(ended.stdout) == needing


def test_a_misspelt_name_beside_right_ones_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "techniques"
    folder.mkdir()
    right = "VALUES = ''\n_OWN = 1\ndef parse(text): ...\ndef prepare(value, keras): ...\ndef _own(): ...\n"
    (folder / "right.py").write_text(right)
    (folder / "hook.py").write_text(right + "def strategy_option(value): ...\n")
    (folder / "constant.py").write_text(right + "REFUSE = {'fit': 'a reason'}\n")
    assert find("technique", "right", tmp_path).name == "right"
    for name, unknown in (("hook", "strategy_option"), ("constant", "REFUSE")):
        with pytest.raises(
            UsageError, match=f"^technique {name} defines {unknown}, which no technique has: use .*"
        ) as refusal:
            find("technique", name, tmp_path)
        assert "strategy_options" in str(refusal.value) and f"or write _{unknown}" in str(refusal.value)


def test_the_page_has_each_function_of_a_technique() -> None:
    rows = re.findall(r"^\| `(\w+)\(value, ", PAGE.read_text(), re.MULTILINE)
    rows += re.findall(r"^\| `(\w+)\(value\)", PAGE.read_text(), re.MULTILINE)
    assert {"parse", *rows} == {name for name in NAMES["technique"] if name.islower()}


def test_an_unknown_name_is_told_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"there is no strategy 'mirrord': use one of .*mirrored, multi-worker"):
        find("strategy", "mirrord")


def test_every_program_that_trains_by_gradients_defines_the_same_names() -> None:
    for entry in entries("program").values():
        if "main" not in entry.functions:
            assert {"examples", "build_model", "loss"} <= entry.functions, entry.name
            assert {"BATCH", "LEARNING_RATE", "METRICS"} <= set(entry.constants), entry.name
        assert entry.summary.endswith(".")


def test_every_strategy_defines_the_same_names() -> None:
    for entry in entries("strategy").values():
        entry.check_names()
        assert "create" in entry.functions and {"REPLICAS", "OPTIONS", "ROLES"} <= set(entry.constants), entry.name
        assert ("SERVING" in entry.constants) == ("serve" in entry.functions)
        for flag, usual, least, most in entry.constants["ROLES"].values():
            assert least <= usual <= most and (flag is None or isinstance(flag, str))


def test_every_technique_says_what_it_takes_and_changes_something() -> None:
    for entry in entries("technique").values():
        entry.check_names()
        assert "parse" in entry.functions and entry.functions & NAMES["technique"] - {"parse"}, entry.name
        assert isinstance(entry.constants["VALUES"], str) and isinstance(entry.constants.get("REFUSED", {}), dict)


def test_a_module_without_docstring_has_an_empty_summary(tmp_path: Path) -> None:
    path = tmp_path / "bare.py"
    path.write_text("VALUES = 'a number'\n")
    assert read_entry("technique", path).summary == ""
