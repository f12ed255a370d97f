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
    """List promises without a test, and tests that are named anywhere in a page and are not there."""
    bare = [promise for promise, beside in promises(text) if "::" not in beside and UNTESTED not in beside]
    named = [(path, name) for path, name in NAMED.findall(text) if name]
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)]
    return [*(f"without a test: {promise}" for promise in bare), *(f"no such test: {each}" for each in missing)]


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


OWN = "tests/test_promises.py::test_each_promise_has_a_test_that_exists"


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (f"| it holds | `{OWN}` |", []),
        (f"| it holds | `{OWN}`, not tested as root |", []),
        ("| it holds | not tested |", []),
        ("| it holds | `test_promises.py` |", ["without a test: it holds"]),
        ("| it \\| holds | |", ["without a test: it \\| holds"]),
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
