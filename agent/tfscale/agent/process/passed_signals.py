"""Signals that an agent gives to its task, because they mean nothing to the agent itself. Standard library alone.

docs/reference/signals.md has the table of all signals.
"""

from __future__ import annotations

import contextlib
import os
import signal

from tfscale.agent.process.sessions import catches, is_orphaned_job

HAND_OVER = signal.SIGRTMAX - 1
"""Signal that has an agent leave without its task: `tfscale-agent hand-over` sends it. No launcher, terminal or kernel
uses this number, and an agent of an earlier version ends by it, whose task goes on all the same."""
OF_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS})
"""Signals of an error in the program that gets them: with a handler that returns, the error is repeated for ever."""
_OF_KERNEL = {signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU}
"""Signals that the agent gets for its own children, pipes, files and output to a terminal."""
UNCATCHABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})
PASSED = frozenset(signal.valid_signals()) - UNCATCHABLE - OF_FAULTS - _OF_KERNEL - {signal.SIGTERM, HAND_OVER}
"""Signals that go to the task."""
STOPPING = frozenset({signal.SIGTSTP, signal.SIGTTIN})
"""Signals after which a shell waits for its job to stand still."""
ENDS_OF_TERMINAL = frozenset({signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals by which a person at a terminal, or its end, asks a program to end."""
_TO_GROUP = STOPPING | ENDS_OF_TERMINAL | {signal.SIGCONT, signal.SIGWINCH}
"""Signals that a terminal sends: it sends each to all processes of its foreground job, so all of the task get it."""
_HARMLESS = STOPPING | {signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}
"""Passed signals that end no program that does not handle them."""


def may_end(number: int) -> bool:
    """Return whether a passed signal ends a program that does not handle it."""
    return number not in _HARMLESS


def give(task: int, number: int) -> None:
    """Send a signal to the task's process, or to its whole process group where a terminal would."""
    if number in STOPPING and is_orphaned_job() and not catches(task, number):
        return  # the kernel stops no job that no shell would continue, and the task is no such job
    if number in _TO_GROUP:
        give_group(task, number)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(task, number)


def give_group(task: int, number: int) -> None:
    """Send a signal to the task's process group, and to its process, which may have gone to another group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(task, number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(task) != task:
            os.kill(task, number)
