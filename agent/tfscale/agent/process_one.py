"""Process 1 of a container in the agent's place: it starts the agent, hands signals on, and reaps orphans.

The kernel gives process 1 every process whose parent has ended, such as a shell's background jobs, and only process 1
can reap them. An agent as process 1 would have to tell these orphans from its own children; so the agent goes on as a
child, and process 1 is a small program of the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

_PROGRAM = "import sys; sys.path.insert(0, {root!r}); from tfscale.agent import process_one; process_one.main()"
_ROOT = str(Path(__file__).parents[2])
_OWN = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS}
"""Signals of an error of this program itself."""
_OF_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH}
"""Signals that a terminal sends to all its foreground processes, the agent among them."""


def go_on_as_child() -> None:
    """Return in a child of this process; the process itself becomes its parent for good, and ends with its status."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OWN)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    # A fresh interpreter has a quarter of the memory: nothing of the agent's is imported in it.
    words = [sys.executable, "-IS", "-c", _PROGRAM.format(root=_ROOT), str(child)]
    with contextlib.suppress(OSError):
        os.execv(words[0], words)
    os._exit(stand_before(child))


def stand_before(child: int) -> int:
    """Hand signals on to a child and reap all children, until that child ends; return its status as a shell does."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the child's status away
    awaited = signal.valid_signals() - _OWN
    while True:
        received = signal.sigwaitinfo(awaited)
        if received.si_signo == signal.SIGCHLD:
            if (status := _reap(child)) is not None:
                return status
        elif received.si_code <= 0 or received.si_signo not in _OF_TERMINAL:  # above 0: from the kernel
            os.kill(child, received.si_signo)


def _reap(child: int) -> int | None:
    """Reap all zombies; return the status of the child if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found


def main() -> None:
    """Run as process 1; the argument is the child's process id."""
    os._exit(stand_before(int(sys.argv[1])))
