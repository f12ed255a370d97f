"""Calls before this process ends, or becomes another program, without Python's own end: `os._exit`, `os.exec*`.

Otherwise the steps of its last second would be lost.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

_ENDS = ("_exit", "execv", "execve")
"""Functions of `os` that all other functions of their kind call."""


def before_sudden_end(call: Callable[[], object], seconds: float) -> None:
    """Call `call`, for at most `seconds`, before each sudden end of this process; not in processes forked from it."""
    for name in _ENDS:
        setattr(os, name, _preceded(getattr(os, name), call, seconds, os.getpid()))


def _preceded(end: Callable[..., Any], call: Callable[[], object], seconds: float, pid: int) -> Callable[..., Any]:
    @functools.wraps(end)
    def preceded(*args: Any, **kwargs: Any) -> Any:
        if os.getpid() == pid:
            _within(call, seconds)
        return end(*args, **kwargs)

    return preceded


def _within(call: Callable[[], object], seconds: float) -> None:
    """Call `call` in a thread of its own, as the calling thread may hold any lock, and wait at most `seconds`."""

    def attempt() -> None:
        with contextlib.suppress(Exception):
            call()

    with contextlib.suppress(RuntimeError):  # Python ends already, and starts no more threads
        calling = threading.Thread(target=attempt, name="tfscale-end", daemon=True)
        calling.start()
        calling.join(seconds)
