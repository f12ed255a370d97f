"""Private names of other libraries, and the features of tfscale that need these names unchanged."""

from __future__ import annotations

import dis
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tfscale.core.log_clues import SHOWS_LESS, UNFIT

_LIBRARIES = {
    "tensorflow": ("TensorFlow", "2.21"),
    "keras": ("Keras", "3.15"),
    "tf_keras": ("tf_keras", "2.21"),
}
"""Name of each library, and its newest release with every name, which a fault's line says to install."""


class Absent:
    """Stand-in for a class that this TensorFlow lacks: it has no instances."""


@dataclass(frozen=True, slots=True)
class Name:
    """Private name: `path` leads from a module to an attribute, `parameters` are those relied upon, in this order.

    Modules and classes that have other names in other versions are written with `|`, as in
    `old.module|new.module:Old|New.attribute`; the first that is there counts.
    """

    module: str
    path: str
    parameters: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Name:
        """Read `module:path` or `module:path(parameter, parameter)`. Raises ValueError for anything else."""
        match = re.fullmatch(r"([\w.|]+):([\w.|]+)(?:\((.*)\))?", text)
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
            return f"has no {self.path.replace('|', ' or ')}"
        if self.parameters and _parameters(getattr(owner, attribute), len(self.parameters)) != self.parameters:
            return f"has another {self.path.replace('|', ' or ')} than ({', '.join(self.parameters)})"
        return None


def find(text: str) -> Any:
    """Return the module, class or function of `module` or `module:path`, Absent where there is none."""
    module, _, path = text.partition(":")
    owner = next(filter(None, map(_imported, module.split("|"))), Absent)
    for alternatives in path.split(".") if path else ():
        owner = next((getattr(owner, name) for name in alternatives.split("|") if hasattr(owner, name)), Absent)
    return owner


def _imported(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


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

    Names are written one a line, as `Name.parse` reads them. `symptom` is a part of the error that ends a script for
    want of the repair. A `lesser` feature shows something more: without it steps and phases are as they are with it.
    """

    def __init__(self, consequence: str, names: str, symptom: str = "", *, lesser: bool = False) -> None:
        self.consequence = consequence
        self.symptom = symptom
        self.lesser = lesser
        self.names = tuple(map(Name.parse, filter(None, map(str.strip, names.splitlines()))))

    def __getitem__(self, path: str) -> Name:
        return next(name for name in self.names if name.path == path)

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules whose import makes the feature due, one in each version; all of TensorFlow's count as one."""
        modules = self.names[0].module
        return ("tensorflow",) if modules.startswith("tensorflow.") else tuple(modules.split("|"))

    def is_due(self, module: str) -> bool:
        """Decide whether this module, which has just been imported, is the one that the installed version has."""
        return module in self.modules and module in ("tensorflow", find(self.names[0].module).__name__)

    def fault(self) -> str | None:
        """Return why the feature cannot be used, in one line, None where all its names are as expected."""
        for name in self.names:
            if (fault := name.fault()) is not None:
                library, version, known = _library(name)
                return f"{self.consequence}: {f'{library} {version}'.rstrip()} {fault}; install {library} {known}"
        return None

    def note(self, fault: str) -> str:
        """Return the line about this fault by which the console knows how grave it is."""
        return f"{SHOWS_LESS if self.lesser else UNFIT}{fault}"


def _library(name: Name) -> tuple[str, str, str]:
    """Return the library of a name, its version where known, and the version to install."""
    root = name.module.partition(".")[0]
    library, known = _LIBRARIES[root]
    # While Keras is being imported its package has no version yet.
    version = getattr(sys.modules.get(root), "__version__", None) or find(f"{root}.src.version:__version__")
    return library, version if isinstance(version, str) else "", known
