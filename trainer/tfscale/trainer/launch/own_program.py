"""Program of the user's own, a file with the names that a program of tfscale-train has: read without an import."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfscale.core.cluster.file.cluster_file import check_run_name
from tfscale.core.errors import UsageError
from tfscale.trainer.launch.catalogue import Entry, read_entry

FUNCTIONS = {"examples": "seed", "build_model": "keras", "loss": "keras"}
"""Argument of each function that a program has."""
_RIGHT: dict[str, Callable[[Any], bool]] = {
    "BATCH": lambda value: type(value) is int and value > 0,
    "LEARNING_RATE": lambda value: isinstance(value, int | float) and value > 0,
    "METRICS": lambda value: isinstance(value, tuple | list) and all(isinstance(each, str) for each in value),
}
"""Checks of the numbers that a program has."""
CONSTANTS = tuple(_RIGHT)


def is_file(program: str) -> bool:
    """Return whether the word for a program is that of a file: no program that is there has such a name."""
    return program.endswith(".py") or "/" in program


def own_program(word: str) -> Entry:
    """Read the file. Raises UsageError where it cannot be read, or is no program of tfscale-train."""
    path = Path(word)
    if path.suffix != ".py":
        raise UsageError(f"{word}: is neither a program of tfscale-train nor a file that ends in .py")
    try:
        entry = read_entry("program", path)
        name = check_run_name(path.stem)
        needs = tuple(_imported(path))
    except OSError as error:
        raise UsageError(f"{word}: cannot be read ({error.strerror})") from None
    except SyntaxError as error:
        raise UsageError(f"{word}, line {error.lineno}: {error.msg}") from None
    except (ValueError, UsageError) as error:
        raise UsageError(f"{word}: {error}") from None
    _check_names(word, entry)
    return replace(entry, name=name, file=path, constants={"NEEDS": needs, **entry.constants})


def _check_names(word: str, entry: Entry) -> None:
    absent = [name for name in FUNCTIONS if name not in entry.functions]
    absent += [name for name in CONSTANTS if name not in entry.constants]
    if absent:
        functions = ", ".join(f"{name}({argument})" for name, argument in FUNCTIONS.items())
        raise UsageError(
            f"{word} defines no {', '.join(absent)}: tfscale-train takes a model from {functions} and its numbers from "
            f"{', '.join(CONSTANTS)}, as literals; a whole script runs as it is: tfscale-agent -- python {word}; "
            f"compare, batch and scale take it after --, too: -- python {word}"
        )
    wrong = [name for name, is_right in _RIGHT.items() if not is_right(entry.constants[name])]
    if wrong:
        raise UsageError(
            f"{word}: {wrong[0]} is {entry.constants[wrong[0]]!r}: BATCH is to be a number from 1, LEARNING_RATE one "
            "above 0, METRICS a tuple of names"
        )


def _imported(path: Path) -> Iterator[str]:
    """Yield the packages that the file imports, without what lies beside it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                names = [module]
            case _:
                continue
        for package in {name.partition(".")[0] for name in names}:
            if not (path.parent / package).is_dir() and not (path.parent / f"{package}.py").is_file():
                yield package
