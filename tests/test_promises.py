"""Each promise in a table of the documentation has a test that exists beside it, or says that it has none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
HEAD = "| promise | test |"
UNTESTED = "not tested"
MATRIX, MARK = "matrix", "pytest.mark.matrix"
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def promises(text: str) -> list[tuple[str, str]]:
    """Return each promise of the tables in a page, with what stands beside it."""
    rows: list[tuple[str, str]] = []
    is_table = False
    for line in text.splitlines():
        if is_table and line.startswith("|") and not line.startswith("| ---"):
            promise, _, beside = line.removesuffix("|").rpartition("|")
            rows.append((promise.strip("| "), beside.strip()))
        is_table = line == HEAD or (is_table and line.startswith("|"))
    return rows


def faults(text: str) -> list[str]:
    """List promises without a test, tests that are named anywhere and are not there, and unsaid tests of the matrix."""
    bare = [promise for promise, beside in promises(text) if "::" not in beside and UNTESTED not in beside]
    named = [(path, name) for path, name in NAMED.findall(text) if name]
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)]
    unsaid = [promise for promise, beside in promises(text) if _rests_on_matrix(beside) and MATRIX not in beside]
    return [
        *(f"without a test: {promise}" for promise in bare),
        *(f"no such test: {each}" for each in missing),
        *(f"its test is of the {MATRIX}: {promise}" for promise in unsaid),
    ]


def _rests_on_matrix(beside: str) -> bool:
    return any(name in matrix_names_in(ROOT / path) for path, name in NAMED.findall(beside))


@cache
def matrix_names_in(path: Path) -> set[str]:
    """Return the names of a file's tests all of whose cases are of the matrix, of which a run of CI has a tenth."""
    body = ast.parse(path.read_text()).body if path.is_file() else []
    assigned = [ast.unparse(node) for node in body if isinstance(node, ast.Assign)]
    is_whole = any(text.startswith("pytestmark") and MARK in text for text in assigned)
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {each.name for each in functions if is_whole or MARK in map(ast.unparse, each.decorator_list)}


@cache
def names_in(path: Path) -> set[str]:
    """Return the names of the tests in a file; none where it is not there."""
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_promise_has_a_test_that_exists(page: Path) -> None:
    assert faults(page.read_text()) == []


def test_the_pages_of_an_agents_promises_have_their_tables() -> None:
    found = {page.name for page in PAGES if promises(page.read_text())}
    assert found >= {"ownership.md", "security.md", "cluster.md", "faults.md"}
    assert sum(len(promises(page.read_text())) for page in PAGES) > 100


def test_every_table_of_promises_has_the_head_that_is_looked_for() -> None:
    heads = {line for page in PAGES for line in page.read_text().splitlines() if line.startswith("| promise ")}
    assert heads == {HEAD}


OF_MATRIX = "tests/e2e/recovery/test_unattended.py::test_a_training_goes_on_after_the_network_was_cut"
OWN = "tests/test_promises.py::test_each_promise_has_a_test_that_exists"


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (f"| it holds | `{OWN}` |", []),
        (f"| it holds | `{OWN}`, not tested as root |", []),
        ("| it holds | not tested |", []),
        ("| it holds | `test_promises.py` |", ["without a test: it holds"]),
        ("| it \\| holds | |", ["without a test: it \\| holds"]),
        (f"| it holds | `{OF_MATRIX}` |", ["its test is of the matrix: it holds"]),
        (f"| it holds | `{OWN}`, `{OF_MATRIX}` |", ["its test is of the matrix: it holds"]),
        (f"| it holds | `{OF_MATRIX}` ([matrix](../tests/matrix.md)) |", []),
        (f"| it holds | `{OWN}_not` |", [f"no such test: {OWN}_not"]),
        ("| it holds | `tests/gone.py::test_it` |", ["no such test: tests/gone.py::test_it"]),
    ],
)
def test_a_promise_without_a_test_is_found(row: str, wrong: list[str]) -> None:
    assert faults(f"{HEAD}\n| --- | --- |\n{row}\n\n| key |\n| --- |\n| value |\n") == wrong


def test_a_test_that_is_gone_is_found_outside_of_a_table_too() -> None:
    assert faults("As `tests/test_promises.py::test_nothing` shows.") == [
        "no such test: tests/test_promises.py::test_nothing"
    ]
