"""Claim on a task's address: no two shims of a network namespace have one at a time. Standard library alone.

It is a name in Linux's abstract namespace, which exists for as long as the shim has its descriptor open: whatever run,
state folder or user another agent has, and also after the folder was removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from pathlib import Path


def claim(address: str) -> socket.socket:
    """Return the socket that holds the claim. Raises OSError, EADDRINUSE where another process has it."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0{_name(address)}")
    except OSError:
        held.close()
        raise
    return held


def holder(address: str) -> int | None:
    """Return the process that holds the claim, None where it is another user's, or has just ended."""
    name = f"@{_name(address)}"
    lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    sockets = {f"socket:[{words[6]}]" for line in lines if (words := line.split())[-1] == name}
    for place in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(place.readlink()) in sockets:
                return int(place.parts[2])
    return None


def _name(address: str) -> str:
    """Return the name of a claim: a hash, because a socket's may have 107 bytes, and a host's has up to 253."""
    return f"tfscale-task-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
