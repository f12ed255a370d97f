"""One vocabulary of exit statuses: the page has it, and no program has a number of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.exit_status import ExitStatus

ROOT = Path(__file__).parents[3]
SIGNALLED = 128
"""Smallest status that tells a signal, as in a shell."""


def test_the_page_has_each_status() -> None:
    page = (ROOT / "docs/reference/exit-statuses.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
    assert {name: int(number) for number, name in rows} == {status.name: status.value for status in ExitStatus}


def test_errors_end_with_statuses_of_the_page() -> None:
    assert (TfscaleError.exit_status, UsageError.exit_status) == (ExitStatus.NOTHING, ExitStatus.USAGE)


def numbers(tree: ast.AST) -> list[int]:
    """List the numbers with which a program ends: in `sys.exit`, in `SystemExit`, and as results of `main`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    ends = [call.args[0] for call in calls if ast.unparse(call.func) in ("sys.exit", "SystemExit")]
    mains = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "main"]
    ends += [node.value for main in mains for node in ast.walk(main) if isinstance(node, ast.Return) and node.value]
    found = [each.value for end in ends for each in ast.walk(end) if isinstance(each, ast.Constant)]
    return [value for value in found if type(value) is int]


def test_no_program_has_a_number_of_its_own() -> None:
    places = [
        path for part in ("core", "agent", "console", "trainer", "scripts") for path in (ROOT / part).rglob("*.py")
    ]
    known = {path: numbers(ast.parse(path.read_text())) for path in places}
    own = {path: [each for each in found if 2 < each < SIGNALLED] for path, found in known.items()}
    assert not {path: found for path, found in own.items() if found}
    assert any(known.values())
