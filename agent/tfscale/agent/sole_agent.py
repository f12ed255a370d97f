"""Hold on a task's state: one agent at a time, in a folder of this user's alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tfscale.agent.private_file import open_private
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.local.private_folder import make_private
from tfscale.core.errors import TfscaleError

_GLANCE = 0.1
"""Seconds after which a lock is an agent's: `holder` itself locks the file for microseconds, each 50 ms in a
hand-over."""


class SoleAgentError(TfscaleError):
    """A reason for which the agent cannot own a task's state."""


@contextlib.contextmanager
def sole_agent(settings: AgentSettings) -> Iterator[None]:
    """Hold the task against a second agent. Raises SoleAgentError if there is one, or if no state can be kept."""
    files = settings.files
    try:
        why = make_private(files.folder)
        if why is not None:
            raise _stateless(files.folder, why)
        lock = open_private(str(files.agent_lock), os.O_RDWR)
    except OSError as error:
        raise _stateless(files.folder, error.strerror) from None
    try:
        _hold(lock, settings)
        yield
    finally:
        os.close(lock)


def holder(settings: AgentSettings) -> int | None:
    """Return the process of the agent that holds the task, None where there is none. Raises SoleAgentError."""
    try:
        lock = os.open(settings.files.agent_lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SoleAgentError(f"{settings.files.agent_lock}: cannot be read ({error.strerror})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(lock, 20).decode().strip() or 0) or None
    finally:
        os.close(lock)
    return None


def _hold(lock: int, settings: AgentSettings) -> None:
    try:
        _lock_alone(lock)
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        other = f"agent with pid {os.read(lock, 20).decode().strip()}"
        raise SoleAgentError(f"{settings.identity} has an {other} already: stop that first{_twice(settings)}") from None
    except OSError as error:
        raise _stateless(settings.files.folder, error.strerror) from None


def _lock_alone(lock: int) -> None:
    """Lock the file against all others. Raises BlockingIOError where another agent holds it."""
    deadline = time.monotonic() + _GLANCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_GLANCE / 10)
        else:
            return


def _stateless(folder: Path, why: str | None) -> SoleAgentError:
    return SoleAgentError(f"{folder}: cannot keep state there ({why}): give --state-dir")


def _twice(settings: AgentSettings) -> str:
    return ", or name this run otherwise: --run NAME" if settings.cluster.is_alone else ""
