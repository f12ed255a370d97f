"""Programs, strategies and techniques: found by their folders, and read without an import of TensorFlow.

The name is the file's, with `-` for `_`; the summary is the first line of its docstring; constants are its literals.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tfscale.core.errors import UsageError

FOLDERS = {"program": "programs", "strategy": "strategies", "technique": "techniques"}
"""Folder of each kind, beside this one; folders in it only sort."""
_TRAINER = Path(__file__).parents[1]
_OWN = "tfscale.trainer."


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
            raise not_installed(error.name) from None

    def check_installed(self, root: Path = _TRAINER) -> None:
        """Look for the packages that the module needs, without an import. Raises UsageError."""
        path = root.joinpath(*self.folder.split("."), f"{self.name.replace('-', '_')}.py")
        for name in _packages(path, root):
            if importlib.util.find_spec(name) is None:
                raise not_installed(name)


def not_installed(package: str | None) -> UsageError:
    """Return the refusal of what needs a package that is not there."""
    return UsageError(f"{package} is not installed here: pip install 'tfscale[demo]'")


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


def _packages(path: Path, root: Path) -> Iterator[str]:
    """Yield the packages that a module imports where it begins, also by way of modules of the trainer."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            # What is imported may be a name of the module, or a module itself.
            names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
        for name in names:
            if not name.startswith("tfscale."):
                yield name.partition(".")[0]
            elif (
                name.startswith(_OWN)
                and (own := root.joinpath(*name[len(_OWN) :].split(".")).with_suffix(".py")).is_file()
            ):
                yield from _packages(own, root)


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
