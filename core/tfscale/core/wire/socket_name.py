"""Name of the agent's socket in Linux's abstract namespace, beside its path."""

from __future__ import annotations


def socket_name(path: str) -> str:
    """Return the name under which the agent that listens at this path listens, too.

    No folder and no mode keeps a process from it, so a process of another user reaches its agent there, and one whose
    path is gone; the agent looks at who has come instead. It is the same where the agent had to move its socket.
    """
    return f"\0tfscale-{path.rpartition('/')[2]}"
