"""Stand-ins for packages that take seconds to import, so that a module's checks of a command line run without them.

A module that is loaded so may ask its packages for anything and gets a stand-in, but it cannot train.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

STOOD_IN = ("tensorflow", "sklearn")
_OWN = "tfscale.trainer."


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Load modules of the trainer with stand-ins in this block, but with what this process has imported already.

    The modules are forgotten afterwards, so that an import of them is whole.
    """
    before = set(sys.modules)
    absent = tuple(name for name in STOOD_IN if name not in before)
    finder = _Finder(absent)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.startswith(_OWN) or name.partition(".")[0] in absent:
                del sys.modules[name]


class _StandIn(ModuleType):
    """Module, class, function and decorator at once."""

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> _StandIn:
        return self

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


class _Finder:
    """Finder and loader of stand-ins."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        """Return the specification of a stand-in, None for a module of another package."""
        is_absent = name.partition(".")[0] in self._packages
        return ModuleSpec(name, self, is_package=True) if is_absent else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in of a module."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the stand-in empty."""
