"""The probe's way into an unmodified script: the agent puts this folder on the task's PYTHONPATH.

Python imports `sitecustomize` at start-up, from the first folder that has one; so this one runs the user's own, too.
In a process that no agent started it does nothing else. The standard library alone is imported, and nothing of the
probe before TensorFlow is: every Python program that the task runs passes through here.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False  # as type checkers understand it, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would double the start-up cost
_PACKAGE = "tfscale"


class _Portions:
    """Makes `tfscale` importable from the agent's installation, in whatever environment the script lives."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = os.environ["TFSCALE_PROBE_PATH"].split(os.pathsep)
        return spec


class _AfterImport:
    """Calls `tfscale.trainer.probe.attach` right after certain modules were imported, before their importer goes on."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._waiting = set(modules)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        self._waiting.discard(name)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_attach(module: ModuleType) -> None:
                execute(module)
                _attach(name)

            spec.loader.exec_module = execute_and_attach  # type: ignore[method-assign]
        return spec


def _attach(name: str) -> None:
    try:
        from tfscale.trainer.probe.attach import attach

        attach(name)
    except Exception as error:  # whatever it is, the training matters more
        print(f"tfscale: the probe could not start, the training goes on without it: {error!r}", file=sys.stderr)


class _AgentEnvironment(os._Environ):  # type: ignore[type-arg]
    """`os.environ` in which TF_CONFIG stays what the agent gave: scripts copied from books say index 0 everywhere."""

    def __setitem__(self, key: str, value: str) -> None:
        if key == "TF_CONFIG" and value != (given := self["TFSCALE_TF_CONFIG"]):
            if not self.__dict__.get("_told"):
                self.__dict__["_told"] = True
                print(
                    f"tfscale: the script assigns TF_CONFIG; the agent's is used instead: {given} "
                    "(start the agent with --script-tf-config to let the script's win)",
                    file=sys.stderr,
                )
            value = given
        super().__setitem__(key, value)


def _chain() -> None:
    """Run the `sitecustomize` that Python would have found without this one."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _enter() -> None:
    if not os.environ.get("TFSCALE_REPORT") or not os.environ.get("TFSCALE_PROBE_PATH"):
        return
    if os.environ.get("TFSCALE_TF_CONFIG"):
        os.environ.__class__ = _AgentEnvironment
    sys.meta_path.insert(0, _Portions)
    sys.meta_path.insert(0, _AfterImport(["tensorflow", "keras.src.backend.tensorflow.trainer"]))


_enter()
_chain()
