"""Programs, strategies and techniques: found by their folders, and read without an import of TensorFlow.

The name is the file's, with `-` for `_`; the summary is the first line of its docstring; constants are its literals.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tfscale.core.errors import UsageError

FOLDERS = {"program": "programs", "strategy": "strategies", "technique": "techniques"}
"""Folder of each kind, in the folder of the trainer. Folders inside it only sort the modules."""
ONE_OF_A_RUN = ("learning_rate", "gradients", "exchange")
"""Functions that only one technique of a run may define."""
NAMES = {
    "strategy": {"create", "check_options", "serve", "OPTIONS", "ROLES", "REPLICAS", "SERVING"},
    "technique": {
        "parse",
        "check_batch",
        "prepare",
        "check",
        "strategy_options",
        "optimizer",
        "after_step",
        *ONE_OF_A_RUN,
    }
    | {"VALUES", "REFUSED"},
}
"""Public names that a module of each kind may define: most are optional, so a misspelt name would silently do nothing.

A program may define further names: all its functions are called, so a misspelt one is missed.
"""
_TRAINER = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Entry:
    """One program, strategy or technique."""

    kind: str
    name: str
    summary: str
    constants: Mapping[str, Any]
    functions: frozenset[str]
    """Functions that the module defines or imports."""
    defined: frozenset[str] = frozenset()
    """Public functions and constants that the module itself defines."""
    folder: str = ""
    """Dotted name of the folder that holds the module."""
    file: Path | None = None
    """File of a program of the user's own."""

    def load(self) -> ModuleType:
        """Import the module. Raises UsageError when a package for it is not installed."""
        try:
            if self.file is not None:
                return _loaded(self.file)
            return importlib.import_module(f"tfscale.trainer.{self.folder}.{self.name.replace('-', '_')}")
        except ModuleNotFoundError as error:
            raise self._lacks(error.name) from None

    def check_installed(self, keras: str) -> None:
        """Look for the packages that the module needs, also for this Keras, without an import. Raises UsageError."""
        for name in ("tensorflow", keras, *self.constants.get("NEEDS", ())):
            if importlib.util.find_spec(name) is None:
                raise self._lacks(name)

    def _lacks(self, package: str | None) -> UsageError:
        own = self.file is not None and package not in ("tensorflow", "keras", "tf_keras")
        return UsageError(f"{self.file}: {package} is not installed here") if own else not_installed(package)

    def check_names(self) -> None:
        """Refuse a module with a public name that its kind does not have. Raises UsageError."""
        known = NAMES.get(self.kind, self.defined)
        if unknown := sorted(self.defined - known):
            raise UsageError(
                f"{self.kind} {self.name} defines {unknown[0]}, which no {self.kind} has: use one of "
                f"{', '.join(sorted(known))}, or write _{unknown[0]} for a name of the module's own"
            )


def not_installed(package: str | None) -> UsageError:
    """Return the refusal for a package that is not installed."""
    return UsageError(f"{package} is not installed here: pip install 'tfscale[demo]'")


def _loaded(file: Path) -> ModuleType:
    """Import a file as Python would in its folder: modules beside it are found after all others."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None  # its name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(file.parent.absolute()))
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def entries(kind: str, root: Path = _TRAINER) -> dict[str, Entry]:
    """Return all entries of a kind by name, sorted."""
    paths = [path for path in (root / FOLDERS[kind]).rglob("*.py") if not path.stem.startswith("_")]
    found = [read_entry(kind, path, ".".join(path.parent.relative_to(root).parts)) for path in paths]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def find(kind: str, name: str, root: Path = _TRAINER) -> Entry:
    """Return the entry of this name. Raises UsageError for an unknown name, and for a module with unknown names."""
    there = entries(kind, root)
    if name not in there:
        choices = f"use one of {', '.join(there)}" if there else "there are none"
        raise UsageError(f"there is no {kind} {name!r}: {choices}")
    there[name].check_names()
    return there[name]


def read_entry(kind: str, path: Path, folder: str = "") -> Entry:
    """Read a module's file; `folder` is the dotted name of its folder."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    constants = dict(_literals(tree))
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} | constants.keys()
    return Entry(
        kind=kind,
        name=path.stem.replace("_", "-"),
        summary=summary,
        constants=constants,
        functions=frozenset(_functions(tree)),
        defined=frozenset(name for name in own if not name.startswith("_")),
        folder=folder,
    )


def _literals(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                try:
                    yield name, ast.literal_eval(value)
                except ValueError:
                    continue


def _functions(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that a module defines or imports, such as another program's `loss`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
