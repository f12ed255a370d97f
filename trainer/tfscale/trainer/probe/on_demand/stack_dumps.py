"""Python stacks of all threads on demand, also while the main thread is blocked or the interpreter is."""

from __future__ import annotations

import faulthandler
import signal
from typing import IO

from tfscale.trainer.probe.process.agent_variables import agent_variable

SIGNAL = signal.SIGRTMIN + 5
"""Signal on which the stacks are written; nothing uses the real-time signals by default."""

_file: IO[str] | None = None
"""File of the stacks, which stays open: the handler writes to its descriptor."""


def listen() -> int | None:
    """Have the stacks written to the agent's file whenever SIGNAL comes; return SIGNAL, None if the script uses it.

    The handler is `faulthandler`'s, in C: it needs no turn of the interpreter.
    """
    global _file
    path = agent_variable("TFSCALE_STACKS")
    if not path or signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return None
    try:
        _file = open(path, "a", encoding="utf-8")  # noqa: PTH123, SIM115 - a path as the agent gave it, never closed
        faulthandler.register(SIGNAL, _file, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        return None
    return int(SIGNAL)
