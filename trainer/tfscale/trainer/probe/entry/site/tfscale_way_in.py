"""Entry of the probe into this process, once: at the import of this module, where an agent's variables are set.

Every Python program that the task starts imports this module, so it imports the standard library alone, and the rest of
the probe only after TensorFlow. In a process without an agent it does nothing.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as type checkers understand it, without the cost of importing typing
if TYPE_CHECKING:
    from types import TracebackType

_PACKAGE = "tfscale"
_putenv = os.putenv
_warned: list[str] = []
"""First overruled TF_CONFIG that the script has assigned."""
variables: dict[str, str] = {}
"""Variables of the agent as they were when this process started. A script may remove them from `os.environ`."""


class _Portions:
    """Finder of `tfscale` in the agent's installation, for scripts that run in another environment."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name != _PACKAGE:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = variables["TFSCALE_PROBE_PATH"].split(os.pathsep)
        return spec


def _attach(module: str) -> None:
    from tfscale.trainer.probe.entry.attach import attach

    attach(module)


def _tell(error: Exception) -> None:
    """Tell the agent that the probe could not start."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the agent sees that, and such a Python may not load the door
        return
    try:
        from tfscale.trainer.probe.entry.door import tell
    except Exception:  # the installation lacks that, too; the log has the reason
        return
    tell(error)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the error that ends the script, and its line of advice, if any."""
    if issubclass(kind, KeyboardInterrupt):
        # Code that is evaluated now, as by an import, would have Python end with 1 in the place of SIGINT.
        sys.__excepthook__(kind, error, trace)
        return
    try:
        from tfscale.trainer.compat.listings.last_error import show
    except Exception:
        sys.__excepthook__(kind, error, trace)
    else:
        show(kind, error, trace)


class _AgentEnvironment(os._Environ):  # type: ignore[type-arg]
    """`os.environ` in which TF_CONFIG stays the agent's when the script assigns another: books assign index 0.

    Variables that the script removes are gone for it, the agent's included. Programs that it starts inherit the agent's
    all the same, because they report, too.
    """

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, _overruled(key, value))

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        if key in variables:
            _putenv(key, variables[key])


def _overruled(key: str, value: str) -> str:
    """Return the agent's TF_CONFIG in place of a different one, with one warning; any other variable unchanged."""
    given = variables.get("TFSCALE_TF_CONFIG")
    if key != "TF_CONFIG" or not given or value == given:
        return value
    if not _warned:
        _warned.append(value)
        print(
            f"tfscale: the script assigns TF_CONFIG; the agent's is used instead: {given} "
            "(start the agent with --script-tf-config to let the script's win)",
            file=sys.stderr,
        )
    return given


def _put(key: str | bytes, value: str | bytes) -> None:
    """Set a variable as `os.putenv` does: for programs that are started, not in `os.environ`."""
    name, kept = os.fsdecode(key), os.fsdecode(value)
    overruled = _overruled(name, kept)
    _putenv(key, value if overruled == kept else overruled)


def _enter() -> None:
    if not os.environ.get("TFSCALE_REPORT") or not os.environ.get("TFSCALE_PROBE_PATH"):
        return
    variables.update((name, value) for name, value in os.environ.items() if name.startswith("TFSCALE_"))
    os.environ.__class__ = _AgentEnvironment
    os.putenv = _put  # type: ignore[assignment]  # os.fsdecode takes paths, too
    sys.excepthook = _show
    sys.meta_path.insert(0, _Portions)
    try:
        from tfscale.trainer.probe.entry.imports import after_import
    except ImportError as error:
        # The script's own sitecustomize, which runs after this one, must not be lost with the probe.
        print(f"tfscale: the probe could not start, the script goes on without it: {error!r}", file=sys.stderr)
        return
    after_import(_attach, _tell)


_enter()
