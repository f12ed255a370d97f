"""Entry of the probe into this process, once: at the import of this module, where an agent's variables are set.

Every Python program that the task starts imports this module, so it imports the standard library alone, and the rest
of the probe only after TensorFlow. In a process that no agent started it does nothing.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as type checkers understand it, without the cost of importing typing
if TYPE_CHECKING:
    from types import TracebackType

_PACKAGE = "tfscale"


class _Portions:
    """Finder of `tfscale` in the agent's installation, for scripts that run in another environment."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = os.environ["TFSCALE_PROBE_PATH"].split(os.pathsep)
        return spec


def _attach(module: str) -> None:
    from tfscale.trainer.probe.entry.attach import attach

    attach(module)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the error that ends the script, and what to write instead where that is known."""
    try:
        from tfscale.trainer.compat.listings.last_error import show
    except Exception:
        sys.__excepthook__(kind, error, trace)
    else:
        show(kind, error, trace)


class _AgentEnvironment(os._Environ):  # type: ignore[type-arg]
    """`os.environ` in which TF_CONFIG stays as the agent set it: scripts from books assign index 0 everywhere."""

    def __setitem__(self, key: str, value: str) -> None:
        given = self.get("TFSCALE_TF_CONFIG")
        if key == "TF_CONFIG" and given and value != given:
            if not self.__dict__.get("_has_warned"):
                self.__dict__["_has_warned"] = True
                print(
                    f"tfscale: the script assigns TF_CONFIG; the agent's is used instead: {given} "
                    "(start the agent with --script-tf-config to let the script's win)",
                    file=sys.stderr,
                )
            value = given
        super().__setitem__(key, value)

    def clear(self) -> None:
        """Remove all but the agent's variables, by which the task reports and knows its place."""
        for key in [key for key in self if not key.startswith("TFSCALE_")]:
            del self[key]


def _enter() -> None:
    if not os.environ.get("TFSCALE_REPORT") or not os.environ.get("TFSCALE_PROBE_PATH"):
        return
    os.environ.__class__ = _AgentEnvironment
    sys.excepthook = _show
    sys.meta_path.insert(0, _Portions)
    from tfscale.trainer.probe.entry.imports import after_import

    after_import(_attach)


_enter()
