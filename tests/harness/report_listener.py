"""The agent's end of the socket on which a training process reports, for tests that play the agent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tfscale.core.wire.framing import HEADER_BYTES, framed, length
from tfscale.v1 import report_pb2


class ReportListener:
    """Listener in a thread of its own that accepts every process, or refuses every one, and hands on each report."""

    def __init__(self, path: Path, hear: Callable[[report_pb2.TaskReport], None], refuse: str = "") -> None:
        self._hear = hear
        self._refuse = refuse
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._start(self._accept)

    def reply(self, reply: report_pb2.ReportReply) -> None:
        """Send a reply to the newest process."""
        self._connections[-1].sendall(framed(reply.SerializeToString()))

    def close(self, grace: float = 0.0) -> None:
        """Stop after what ending processes still send in these seconds."""
        # Only that wakes the thread which waits for a connection.
        self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads if grace else []:
            thread.join(grace)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._connections.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reports:
            for number, report in enumerate(iter(lambda: next_report(reports), None)):
                if self._refuse:
                    self.reply(report_pb2.ReportReply(refused=self._refuse))
                    return
                if number == 0:
                    self.reply(report_pb2.ReportReply(accepted=report_pb2.Accepted()))
                self._hear(report)


def next_report(reports: BinaryIO) -> report_pb2.TaskReport | None:
    with suppress(ConnectionError):
        header = reports.read(HEADER_BYTES)
        if len(header) == HEADER_BYTES:
            return report_pb2.TaskReport.FromString(reports.read(length(header)))
    return None
