"""Connection of this process to the agent of its task."""

from __future__ import annotations

import socket
import struct

from tfscale.core.wire.socket_name import socket_name
from tfscale.trainer.probe.process.agent_variables import agent_variable

_CREDENTIALS = struct.Struct("3i")


def connect(agent: socket.socket, path: str) -> None:
    """Connect a Unix socket to the agent that listens at a path, by its name where this process cannot use the path.

    Raises OSError.
    """
    try:
        agent.connect(path)
    except (PermissionError, FileNotFoundError) as error:
        if not _connect_by_name(agent, path):
            raise error from None


def _connect_by_name(agent: socket.socket, path: str) -> bool:
    """Return whether the agent was reached: while there is none, every user may listen under its name."""
    try:
        agent.connect(socket_name(path))
    except OSError:
        return False
    _, user, _ = _CREDENTIALS.unpack(agent.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return str(user) == agent_variable("TFSCALE_AGENT_USER")
