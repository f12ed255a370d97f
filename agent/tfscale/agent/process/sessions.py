"""Processes of a shim's session, told apart from later processes of the same number. Standard library alone."""

# Importing pathlib would take a sixth of the time until the task starts.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def boot_id() -> str:
    """Return the identity of this boot: process ids and start times of other boots mean nothing."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, by a signal or a debugger."""
    fields = _stat(pid)
    return fields is not None and fields[0] in ("T", "t")


def is_orphaned_job() -> bool:
    """Return whether no shell of this process's session waits for its process group."""
    group, session = os.getpgrp(), os.getsid(0)
    parent = os.getppid()
    while (fields := _stat(parent)) is not None and int(fields[2]) == group:
        parent = int(fields[1])
    return fields is None or int(fields[3]) != session


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    try:
        with open(f"/proc/{pid}/status") as file:
            (mask,) = (line.split()[1] for line in file if line.startswith("SigCgt:"))
    except (OSError, ValueError):
        return False
    return bool(int(mask, 16) >> (number - 1) & 1)


def session_members(shim_pid: int, shim_started: int) -> Iterator[int]:
    """List the living processes of the session that a shim leads or led, without the shim itself."""
    leader = start_time(shim_pid)
    if leader is not None and leader != shim_started:
        return
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == shim_pid:
            continue
        fields = _stat(int(entry))
        if fields and int(fields[3]) == shim_pid and int(fields[19]) >= shim_started and fields[0] != "Z":
            yield int(entry)


def kill_session(shim_pid: int, shim_started: int, patience: float = 5.0) -> int:
    """Kill the remaining processes of a shim's session, wait for their end, and return their number."""
    killed: set[int] = set()
    deadline = time.monotonic() + patience
    while (members := set(session_members(shim_pid, shim_started))) and time.monotonic() < deadline:
        for pid in members - killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= members
        time.sleep(0.01)
    return len(killed)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on; the second may contain spaces and parentheses."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(file, 4096)
    except OSError:
        return None
    finally:
        os.close(file)
    return text.rpartition(b")")[2].decode().split()
