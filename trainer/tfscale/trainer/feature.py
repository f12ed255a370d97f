"""Private names of other libraries, and the features of tfscale that need these names unchanged."""

from __future__ import annotations

import dis
import functools
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from typing import Any

_LIBRARIES = {"tensorflow": "TensorFlow", "keras": "Keras", "tf_keras": "tf_keras"}


class Absent:
    """Stand-in for a class that this TensorFlow lacks: it has no instances."""


@dataclass(frozen=True, slots=True)
class Name:
    """Private name: `path` leads from a module to an attribute, `parameters` are the needed ones, in this order."""

    module: str
    path: str
    parameters: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Name:
        """Read `module:path` or `module:path(parameter, parameter)`. Raises ValueError for anything else."""
        match = re.fullmatch(r"([\w.]+):([\w.]+)(?:\((.*)\))?", text)
        if match is None:
            raise ValueError(f"{text!r} is no private name: write module:path(parameters)")
        module, path, parameters = match.groups()
        return cls(module, path, tuple(re.findall(r"\w+", parameters or "")))

    @property
    def owner(self) -> Any:
        """Module or class that has the attribute; Absent where there is none."""
        owner, _, _ = self.path.rpartition(".")
        return find(f"{self.module}:{owner}" if owner else self.module)

    @property
    def attribute(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    def fault(self) -> str | None:
        """Return the difference of this name in the installed library, None if it is as expected."""
        owner, attribute = self.owner, self.attribute
        if owner is Absent or not (hasattr(owner, attribute) or _is_set_by_method(owner, attribute)):
            return f"has no {self.path}"
        if self.parameters and _parameters(getattr(owner, attribute), len(self.parameters)) != self.parameters:
            return f"has another {self.path} than ({', '.join(self.parameters)})"
        return None


def find(text: str) -> Any:
    """Return the module, class or function of `module` or `module:path`, Absent where there is none."""
    module, _, path = text.partition(":")
    try:
        return functools.reduce(getattr, path.split(".") if path else [], importlib.import_module(module))
    except (ImportError, AttributeError):
        return Absent


def _is_set_by_method(owner: Any, attribute: str) -> bool:
    """Return whether a method sets the attribute: then instances have it, but the class does not."""
    kinds = inspect.getmro(owner) if inspect.isclass(owner) else ()
    methods = [inspect.unwrap(member) for kind in kinds for member in vars(kind).values() if callable(member)]
    codes = [code for method in methods if (code := getattr(method, "__code__", None)) and attribute in code.co_names]
    return any(
        step.opname == "STORE_ATTR" and step.argval == attribute
        for code in codes
        for step in dis.get_instructions(code)
    )


def _parameters(function: Any, count: int) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)[:count]
    except (TypeError, ValueError):
        return ()


class Feature:
    """One hook or repair: the names that it needs, and the consequence of their absence as the console shows it.

    Names are written one a line, as `Name.parse` reads them.
    """

    def __init__(self, consequence: str, names: str) -> None:
        self.consequence = consequence
        self.names = tuple(map(Name.parse, filter(None, map(str.strip, names.splitlines()))))

    def __getitem__(self, path: str) -> Name:
        return next(name for name in self.names if name.path == path)

    def fault(self) -> str | None:
        """Return why the feature cannot be used, in one line, None where all its names are as expected."""
        for name in self.names:
            if (fault := name.fault()) is not None:
                return f"{self.consequence}: {_library(name)} {fault}"
        return None


def _library(name: Name) -> str:
    root = name.module.partition(".")[0]
    return f"{_LIBRARIES[root]} {getattr(sys.modules.get(root), '__version__', '')}".rstrip()
