"""No code of the console takes a sentence apart: what it has to know is a field of the record."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[3] / "console" / "tfscale"
TEXTS = ("sentence", "headline", "statement", "explanation")
"""Attributes that hold a sentence for people."""
READERS = {
    "partition", "rpartition", "split", "rsplit", "splitlines", "startswith", "endswith", "find", "index", "count",
    "removeprefix", "match", "search", "fullmatch", "findall",
}  # fmt: skip
ALLOWED = {
    "model.py": "a line of the timeline tells a finding's own sentence from other words about it",
    "task_detail.py": "it leaves out a clock time that the sentence shows already",
}
"""Modules that may look into a sentence, and why."""


def readings(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which a sentence is compared, searched or taken apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            if is_text(node.func.value) or any(map(holds_text, node.args)):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            operators = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
            if isinstance(node.ops[0], operators) and any(map(is_text, (node.left, *node.comparators))):
                yield node.lineno


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def holds_text(node: ast.AST) -> bool:
    """Decide whether an argument is a sentence, or a reason that was kept as evidence."""
    return any(is_text(each) or (isinstance(each, ast.Constant) and each.value == "reason") for each in ast.walk(node))


def test_nobody_takes_a_sentence_apart() -> None:
    found = {
        f"{path.name}:{line}": ALLOWED.get(path.name)
        for path in sorted(CONSOLE.rglob("*.py"))
        for line in readings(ast.parse(path.read_text()))
    }
    assert [place for place, why in found.items() if why is None] == []
    assert {place.partition(":")[0] for place in found} == {*ALLOWED}, "an exception that nobody needs any more"


@pytest.mark.parametrize(
    "line",
    [
        "rest = crash.sentence.partition('; ')[2]",
        "if name in worst.sentence: pass",
        "if diagnosis.sentence == findings.headline: pass",
        "found = _REASON.match(str(restart.evidence.get('reason') or ''))",
    ],
)
def test_each_way_to_read_a_sentence_is_found(line: str) -> None:
    assert [*readings(ast.parse(line))] == [1]
