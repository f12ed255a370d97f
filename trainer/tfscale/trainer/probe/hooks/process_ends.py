"""Calls before this process ends, or becomes another program, without Python's own end: `os._exit`, `os.exec*`.

Without them the steps of its last second would be lost.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

_ENDS = ("_exit", "execv", "execve")
"""Functions of `os` that all others of their kind call."""


def before_sudden_end(call: Callable[[], None]) -> None:
    """Call this before each sudden end of this process; not in processes that are forked from it."""
    for name in _ENDS:
        setattr(os, name, _preceded(getattr(os, name), call, os.getpid()))


def _preceded(end: Callable[..., Any], call: Callable[[], None], pid: int) -> Callable[..., Any]:
    @functools.wraps(end)
    def preceded(*args: Any, **kwargs: Any) -> Any:
        if os.getpid() == pid:
            call()
        return end(*args, **kwargs)

    return preceded
