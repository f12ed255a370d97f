"""A process's connection to its agent: messages as they come, without waiting for any."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from tfscale.core.wire.framing import HEADER_BYTES, framed, length
from tfscale.v1 import report_pb2

_AT_ONCE = 1 << 18
"""Bytes."""
_TIMES = 64
"""So much is taken at most before others get their turn."""


class Connection:
    """Whoever reads what has come since need not have been woken for it. `own` is a connected socket."""

    def __init__(self, own: socket.socket) -> None:
        own.setblocking(False)
        self._socket = own
        self._come = bytearray()
        self.is_over = False
        """Whether the process has said all; what it had not finished is nothing."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self) -> Iterator[report_pb2.TaskReport]:
        """What has come since the last call. Raises FramingError and DecodeError."""
        for _ in range(_TIMES):
            try:
                more = self._socket.recv(_AT_ONCE)
            except BlockingIOError:
                return
            except OSError:
                more = b""
            if not more:
                self.is_over = True
                return
            self._come += more
            yield from self._whole()

    def _whole(self) -> Iterator[report_pb2.TaskReport]:
        while len(self._come) >= HEADER_BYTES:
            end = HEADER_BYTES + length(bytes(self._come[:HEADER_BYTES]))
            if len(self._come) < end:
                return
            message = bytes(self._come[HEADER_BYTES:end])
            del self._come[:end]
            yield report_pb2.TaskReport.FromString(message)

    def reply(self, reply: report_pb2.ReportReply) -> None:
        """Say something, unless the process has gone, or has not read for long."""
        with contextlib.suppress(OSError):
            self._socket.send(framed(reply.SerializeToString()), socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._socket.close()
