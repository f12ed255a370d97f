"""Server of the task's reports, on a Unix socket that only this user may open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.errors import TfscaleError

_logger = logging.getLogger(__name__)
_RETRY = 1.0
"""Seconds until the next attempt to accept a connection."""


class SocketLost(TfscaleError):
    """A socket that cannot be made."""


class ReportServer:
    """Server that restores its socket: logind removes the folder of a session, with all files, at the last logout.

    `elsewhere` returns a path at which a socket can be made, and raises a TfscaleError without one.
    """

    def __init__(self, path: Path, reports: ProbeReports, elsewhere: Callable[[], str]) -> None:
        self.path = path
        self._reports = reports
        self._elsewhere = elsewhere
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve the socket, elsewhere if its place cannot be used. Raises a TfscaleError if no place can."""
        try:
            self._serve()
        except SocketLost as error:
            self._move(str(error))

    async def keep(self) -> None:
        """Serve anew if the socket was removed; connected processes stay connected. Raises a TfscaleError."""
        if not self.path.is_socket():
            await self._close()
            self._move(f"{self.path} was removed, as at a logout")

    async def stop(self) -> None:
        await self._close()
        self._reports.close()

    def _move(self, why: str) -> None:
        self.path = Path(self._elsewhere())
        self._serve()
        _logger.warning(
            "%s: reports come to %s now; a task that runs and shows no step any more is measured after a restart",
            why,
            self.path,
        )

    def _serve(self) -> None:
        listening = socket.socket(socket.AF_UNIX)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)  # an agent that was killed has left it
            listening.bind(str(self.path))
            self.path.chmod(0o600)
        except OSError:
            listening.close()
            self._remove()
            raise SocketLost(f"cannot serve the task's reports on {self.path}: look at that folder") from None
        listening.listen()
        listening.setblocking(False)
        self._listening = listening
        self._accepting = asyncio.create_task(self._accept(listening))

    async def _close(self) -> None:
        if self._accepting is None or self._listening is None:
            return
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._listening.close()
        self._accepting = self._listening = None
        self._remove()

    def _remove(self) -> None:
        """Remove the socket, which the next agent of this task makes anew."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                process, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                # Out of files, for example: it may have them again.
                _logger.warning("a process of the task cannot connect, tried again in %g s: %s", _RETRY, error)
                await asyncio.sleep(_RETRY)
            else:
                self._reports.accept(process)
