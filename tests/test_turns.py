"""Each commit has its turn of the tests that take too long for every run of CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from plugins import turns
from plugins.matrix_runs import Row
from plugins.turns import turn

CONFTEST = """
from plugins import turns

def pytest_addoption(parser):
    turns.add_options(parser)

def pytest_configure(config):
    for marker in ("matrix(group)", "slow"):
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(turns)
"""
MATRIX = """
import pytest

@pytest.mark.matrix
@pytest.mark.parametrize("number", range(10))
def test_numbers(number):
    pass

@pytest.mark.matrix(group="together")
@pytest.mark.parametrize("number", range(2))
def test_together(number):
    pass
"""
LONG = """
import pytest

pytestmark = pytest.mark.slow

def test_one():
    pass

def test_two():
    pass
"""


def listed(tree: Path, mark: str, of: str) -> list[str]:
    """Return the tests of a turn, as pytest lists them."""
    for name, text in {"conftest.py": CONFTEST, "test_m.py": MATRIX, "test_a.py": LONG, "test_b.py": LONG}.items():
        (tree / name).write_text(text)
    path = os.environ | {"PYTHONPATH": str(Path(turns.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-m", mark, "--turn", of, "--collect-only", "--quiet"]
    told = subprocess.run(command, cwd=tree, env=path, capture_output=True, text=True, check=False).stdout
    return [line for line in told.splitlines() if "::" in line]


def test_ten_turns_run_every_case_once_and_a_group_together() -> None:
    cases = {f"tests/a[{number}]": f"group {number // 2}" for number in range(40)} | {"tests/b": "tests/b"}
    rows = {"tests/b": Row("tests/b", cases=1, seconds=1000.0)}
    all_turns = [turn(cases, rows, f"{number:08x}", 10) for number in range(10)]
    assert sorted(case for chosen in all_turns for case in chosen) == sorted(cases)
    assert max(map(len, all_turns)) <= 6 and min(map(len, all_turns)) >= 3
    for chosen in all_turns:
        assert {cases[case] for case in chosen}.isdisjoint({cases[case] for case in cases if case not in chosen})


def test_a_commits_turn_is_that_of_its_first_digits(tmp_path: Path) -> None:
    tenths = [listed(tmp_path, "matrix", f"{number:08x}/11") for number in range(11)]
    assert sorted(map(len, tenths)) == [1] * 10 + [2]
    assert ["test_m.py::test_together[0]", "test_m.py::test_together[1]"] in tenths


def test_a_file_of_long_tests_runs_in_one_turn(tmp_path: Path) -> None:
    halves = [listed(tmp_path, "slow", f"{number:08x}/2") for number in range(2)]
    assert halves == [[f"test_{name}.py::test_one", f"test_{name}.py::test_two"] for name in "ab"]
