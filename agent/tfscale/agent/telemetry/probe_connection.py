"""Connection of a training process to its agent: received messages are read without blocking."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

from tfscale.core.wire.framing import HEADER_BYTES, framed, length

_READ_BYTES = 1 << 18
"""Bytes of one read."""
_READS = 64
"""Most reads of one call, so that no process keeps the agent from other processes."""
_CREDENTIALS = struct.Struct("3i")


def connected_process(own: socket.socket) -> tuple[int, int]:
    """Return number and user of the process that has connected, as the kernel knows them."""
    credentials = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return pid, user


class ProbeConnection:
    """Non-blocking connection, read when a frame is made instead of at every message. `own` is a connected socket."""

    def __init__(self, own: socket.socket) -> None:
        own.setblocking(False)
        self._socket = own
        self.pid, _ = connected_process(own)
        """Number of the process; in a container it may have another one for itself."""
        self._received = bytearray()
        self.is_over = False
        """True when the process has sent its last byte; a message that it had not finished is dropped."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self) -> Iterator[bytes]:
        """Yield the messages received since the last call. Raises FramingError."""
        for _ in range(_READS):
            try:
                more = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                more = b""
            if not more:
                self.is_over = True
                return
            self._received += more
            yield from self._whole()

    def _whole(self) -> Iterator[bytes]:
        while len(self._received) >= HEADER_BYTES:
            end = HEADER_BYTES + length(bytes(self._received[:HEADER_BYTES]))
            if len(self._received) < end:
                return
            message = bytes(self._received[HEADER_BYTES:end])
            del self._received[:end]
            yield message

    def reply(self, message: bytes) -> None:
        """Send a message, unless the process has gone, or has not read for long."""
        with contextlib.suppress(OSError):
            self._socket.send(framed(message), socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._socket.close()
