"""The file of the last runs of the matrix is written, read and judged."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from plugins import matrix_runs
from plugins.matrix_runs import KNOWN_FROM, OLDEST_COMMITS, OLDEST_DAYS, Row, faults, read_rows

CONFTEST = """
from plugins import matrix_runs

def pytest_addoption(parser):
    matrix_runs.add_options(parser)

def pytest_configure(config):
    config.addinivalue_line("markers", "matrix(group): marked")
    config.pluginmanager.register(matrix_runs.MatrixRuns(config))
"""
TESTS = """
import pytest

pytestmark = pytest.mark.matrix

@pytest.mark.parametrize("number", range(3))
def test_numbers(number):
    pass

def test_that_fails():
    assert False

def test_that_is_skipped():
    pytest.skip("not here")
"""
NUMBERS = "tests/test_it.py::test_numbers"
FAILS = "tests/test_it.py::test_that_fails"
SKIPPED = "tests/test_it.py::test_that_is_skipped"
CHECK = ("--matrix-check", "--collect-only", "--quiet", "--quiet")
TODAY = date(2026, 11, 28)
PASSED = Row("tests/a", TODAY.isoformat(), "-", 1, 1.0, "passed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a repository with one commit, whose tests are all of the matrix."""
    for name, text in {"pytest.ini": "", "tests/conftest.py": CONFTEST, "tests/test_it.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    return subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


def commit(tree: Path) -> str:
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "a change")
    return git(tree, "rev-parse", "--short=10", "HEAD")


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the tree's tests by pytest with these options of the matrix."""
    path = os.environ | {
        "PYTHONPATH": str(Path(matrix_runs.__file__).parents[1]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-m", "matrix", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=tree, env=path, capture_output=True, text=True, check=False)


def rows_of(tree: Path) -> dict[str, Row]:
    return read_rows((tree / "tests/matrix.md").read_text())


def test_a_run_keeps_the_day_the_commit_and_the_result_of_each_test(tree: Path) -> None:
    assert run(tree, "--matrix-keep").returncode == 1
    rows = rows_of(tree)
    assert {test: (row.cases, row.result) for test, row in rows.items()} == {
        NUMBERS: (3, "passed"),
        FAILS: (1, "failed: 1"),
        SKIPPED: (1, "skipped: 1"),
    }
    assert {row.commit for row in rows.values()} == {git(tree, "rev-parse", "--short=10", "HEAD")}
    assert {row.day for row in rows.values()} == {datetime.now(UTC).date().isoformat()}


def test_a_test_of_which_only_some_cases_ran_keeps_its_row(tree: Path) -> None:
    run(tree, "--matrix-keep")
    kept, later = rows_of(tree), commit(tree)
    run(tree, "--matrix-keep", FAILS, f"{NUMBERS}[0]")
    run(tree, "--matrix-keep", "-k", "test_numbers and 1")
    rows = rows_of(tree)
    assert rows[NUMBERS] == kept[NUMBERS] and rows[FAILS].commit == later


def test_the_check_fails_until_every_test_has_a_good_row(tree: Path) -> None:
    assert f"{NUMBERS}: it has no row" in run(tree, *CHECK).stderr
    run(tree, "--matrix-keep")
    said = run(tree, *CHECK).stderr.splitlines()
    assert said[1:-1] == [f"{FAILS}: failed: 1 on {datetime.now(UTC).date()}"]
    (tree / "tests/test_it.py").write_text(TESTS.replace("assert False", "pass"))
    assert run(tree, "--matrix-keep").returncode == 0 == run(tree, *CHECK).returncode


@pytest.mark.parametrize(
    ("row", "today", "said"),
    [
        (PASSED, TODAY + timedelta(OLDEST_DAYS), []),
        (PASSED, TODAY + timedelta(OLDEST_DAYS + 1), [f"tests/a: ran {OLDEST_DAYS + 1} days ago"]),
        (PASSED._replace(result="skipped: 1"), TODAY, []),
        (PASSED._replace(result="failed: 1"), TODAY, [f"tests/a: failed: 1 on {TODAY}"]),
        (Row("tests/a"), KNOWN_FROM - timedelta(1), []),
        (Row("tests/a"), KNOWN_FROM, ["tests/a: it is not known when it ran last"]),
        (
            PASSED._replace(test="tests/b"),
            TODAY,
            ["tests/a: it has no row", "tests/b: no test of the matrix has this name"],
        ),
    ],
)
def test_a_row_that_is_too_old_or_of_no_test_is_a_fault(row: Row, today: date, said: list[str], tmp_path: Path) -> None:
    assert list(faults(["tests/a"], {row.test: row}, tmp_path, today)) == said


def test_a_row_of_too_many_commits_ago_is_a_fault(tree: Path) -> None:
    rows = {"tests/a": PASSED._replace(commit=git(tree, "rev-parse", "HEAD"))}
    newest = git(tree, "rev-parse", "HEAD^{tree}")
    for _ in range(OLDEST_COMMITS):
        git(tree, "update-ref", "HEAD", git(tree, "commit-tree", newest, "-p", "HEAD", "-m", "a change"))
    assert list(faults(rows, rows, tree, TODAY)) == []
    commit(tree)
    assert list(faults(rows, rows, tree, TODAY)) == [f"tests/a: ran {OLDEST_COMMITS + 1} commits ago"]
