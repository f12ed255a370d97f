"""Rules of the tree that ruff does not know: size of folders, names of modules, first words of docstrings, long lines.

    .venv/bin/python scripts/ci/tree_rules.py [ROOT]

Prints `path:line: rule` for each fault, and ends with 1 where there is one.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("core", "agent", "console", "trainer")
LARGEST_FOLDER = 12
"""Modules in one folder, `__init__` not counted."""
CASES = ("kinds", "programs")
"""Folders of tests that hold a module for each kind of case: as many as there are kinds."""
SHARED_NAMES = ("__init__", "cli", "wire")
"""Module names that several packages may have."""
LONGEST_LINE = 120
MOST_BY_PLACE = 6
"""Arguments of a call without their names: a reader does not count to seven."""

VAGUE = {
    "as", "of", "so", "that", "what", "whatever", "where", "whether", "which", "who", "whoever", "whom", "whose",
}  # fmt: skip
"""Words with which no docstring begins: its subject is a thing that the code names."""
NOT_VERBS = VAGUE | {
    "a", "after", "all", "an", "and", "any", "at", "before", "between", "both", "by", "bytes", "each", "either",
    "every", "false", "few", "for", "from", "how", "if", "in", "it", "its", "microseconds", "milliseconds", "minutes",
    "more", "most", "never", "no", "none", "not", "nothing", "number", "numbers", "on", "once", "one", "only",
    "other", "others", "out", "same", "seconds", "several", "since", "some", "something", "such", "the", "their",
    "then", "there", "these", "they", "this", "those", "to", "true", "two", "until", "when", "why", "with", "without",
}  # fmt: skip
"""Words with which no function's docstring begins, since it begins with a verb."""
FOR_FUNCTIONS = {"get", "gets", "return", "returns"}
"""Words with which the docstring of an attribute or a property does not begin, since it begins with a noun."""


def faults(root: Path) -> Iterator[str]:
    """Yield one line for each fault in the tree below `root`."""
    yield from folder_faults(root)
    yield from name_faults(root)
    for path in modules(root):
        for line, rule in call_faults(ast.parse(path.read_text())):
            yield f"{path.relative_to(root)}:{line}: {rule}"
    others = [path for folder in ("scripts", "tests", "examples") for path in sorted((root / folder).rglob("*.py"))]
    for path in [*modules(root), *others]:
        for line, rule in docstring_faults(ast.parse(path.read_text())):
            yield f"{path.relative_to(root)}:{line}: {rule}"
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        for line in long_lines(path.read_text()):
            yield f"{path.relative_to(root)}:{line}: line is longer than {LONGEST_LINE} characters"


def modules(root: Path) -> list[Path]:
    return [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]


def folder_faults(root: Path) -> Iterator[str]:
    folders: dict[Path, int] = defaultdict(int)
    tests = (path for path in (root / "tests").rglob("*.py") if not set(CASES) & set(path.parts))
    for path in [*modules(root), *sorted(tests)]:
        folders[path.parent] += path.stem != "__init__"
    for folder, number in folders.items():
        if number > LARGEST_FOLDER:
            yield f"{folder.relative_to(root)}:1: folder has {number} modules, at most {LARGEST_FOLDER} are allowed"


def name_faults(root: Path) -> Iterator[str]:
    first: dict[str, Path] = {}
    for path in modules(root):
        other = first.setdefault(path.stem, path)
        if other != path and path.stem not in SHARED_NAMES:
            yield f"{path.relative_to(root)}:1: module has the name of {other.relative_to(root)}"


def docstring_faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the broken rule of each docstring that begins with a wrong word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from _fault(node.body[:1], VAGUE, "docstring begins with")
            for statement, following in zip(node.body, node.body[1:], strict=False):
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    yield from _fault([following], VAGUE | FOR_FUNCTIONS, "docstring of an attribute begins with")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_property(node):
            yield from _fault(node.body[:1], VAGUE | FOR_FUNCTIONS, "docstring of a property begins with")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            # A test's name says what it does; its docstring may tell why that is so.
            yield from _fault(node.body[:1], VAGUE, "docstring of a test begins with")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _fault(node.body[:1], NOT_VERBS, "docstring of a function begins with")


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def _fault(body: list[ast.stmt], forbidden: set[str], rule: str) -> Iterator[tuple[int, str]]:
    match body:
        case [ast.Expr(ast.Constant(str(text)), lineno=line)]:
            word = text.split(maxsplit=1)[0].strip(",.:;") if text.strip() else ""
            if word.lower() in forbidden:
                yield line, f"{rule} {word!r}"


def call_faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line of each call with too many arguments by place; ruff counts those of functions, not of records."""
    for node in ast.walk(tree):
        # A function of C knows no names.
        if isinstance(node, ast.Call) and "_library." not in ast.unparse(node.func):
            number = sum(not isinstance(argument, ast.Starred) for argument in node.args)
            if number > MOST_BY_PLACE:
                yield node.lineno, f"call gives {number} arguments by place, at most {MOST_BY_PLACE} are allowed"


def long_lines(text: str) -> Iterator[int]:
    """Yield the numbers of lines that are too long, but for those that cannot wrap: tables, code and lone links."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        is_fenced ^= line.lstrip().startswith("```")
        can_wrap = not is_fenced and not line.startswith(("|", "    ")) and " " in line.lstrip("-* ")
        if can_wrap and len(line) > LONGEST_LINE:
            yield number


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    found = list(faults(root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
