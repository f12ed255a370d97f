"""Defaults from outside for functions that a script calls, and the lines about what the script takes of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tfscale.core.log_clues import OVERRULED, TAKEN

_LIBRARIES = ("tensorflow", "keras", "tf_keras", "tfscale")
_AUTOGRAPH = "tensorflow.python.autograph."
"""Begin of the modules that call for the script, in its functions that became graphs."""
_said: set[str] = set()


def with_defaults(function: Any, defaults: dict[str, Any], names: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Return the function with other defaults; an argument of the caller's goes before. `names` are told."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name, value in defaults.items():
            for told in names or (name,):
                (overrule if name in kwargs else take)(told)
            kwargs.setdefault(name, value)
        return function(*args, **kwargs)

    return called


def take(name: str) -> None:
    """Tell that the script has taken a setting."""
    _say(TAKEN + name)


def overrule(name: str) -> None:
    """Tell that the script gives a setting itself."""
    _say(OVERRULED + name)


def _say(line: str) -> None:
    if line not in _said:
        _said.add(line)
        print(line, file=sys.stderr, flush=True)


def caller() -> str:
    """Return the module that has called the function from which this one is called."""
    frame = sys._getframe(2)
    while (module := str(frame.f_globals.get("__name__", ""))).startswith(_AUTOGRAPH) and frame.f_back is not None:
        frame = frame.f_back
    return module


def is_of_script(module: str) -> bool:
    """Decide whether a module is of the script, or of a library that it uses: none of TensorFlow or Keras."""
    return module.partition(".")[0] not in _LIBRARIES
