"""Programs, strategies and techniques: found by their folders, and read without an import of TensorFlow.

The name is the file's, with `-` for `_`; the summary is the first line of its docstring; constants are its literals.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tfscale.core.errors import UsageError

FOLDERS = {"program": "programs", "strategy": "strategies", "technique": "techniques"}
"""Folder of each kind, beside this one; folders in it only sort."""
_TRAINER = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Entry:
    """One program, strategy or technique."""

    kind: str
    name: str
    summary: str
    constants: Mapping[str, Any]
    functions: frozenset[str]
    folder: str = ""
    """Dotted name of the folder that holds the module."""

    def load(self) -> ModuleType:
        """Import the module. Raises UsageError when a package that it needs is not installed."""
        try:
            return importlib.import_module(f"tfscale.trainer.{self.folder}.{self.name.replace('-', '_')}")
        except ModuleNotFoundError as error:
            raise UsageError(f"{error.name} is not installed here: pip install 'tfscale[demo]'") from None


def entries(kind: str, root: Path = _TRAINER) -> dict[str, Entry]:
    """Return all entries of a kind by name, sorted."""
    paths = [path for path in (root / FOLDERS[kind]).rglob("*.py") if not path.stem.startswith("_")]
    found = [read_entry(kind, path, ".".join(path.parent.relative_to(root).parts)) for path in paths]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def find(kind: str, name: str) -> Entry:
    """Return the entry of this name. Raises UsageError that lists the names there are."""
    there = entries(kind)
    if name not in there:
        choices = f"use one of {', '.join(there)}" if there else "there are none"
        raise UsageError(f"there is no {kind} {name!r}: {choices}")
    return there[name]


def read_entry(kind: str, path: Path, folder: str = "") -> Entry:
    """Read a module's file; `folder` is the dotted name of its folder."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    name, functions = path.stem.replace("_", "-"), frozenset(_functions(tree))
    return Entry(kind, name, summary, dict(_literals(tree)), functions, folder)


def _literals(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                try:
                    yield name, ast.literal_eval(value)
                except ValueError:
                    continue


def _functions(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that a module defines or imports, as `loss` of another program."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
