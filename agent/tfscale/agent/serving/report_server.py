"""Server of the task's reports, on a Unix socket that only this user may open, and on one for the task's processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tfscale.agent.process.started_process import user_of
from tfscale.agent.telemetry.probe_connection import connected_process
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.errors import TfscaleError
from tfscale.core.wire.socket_name import socket_name

_logger = logging.getLogger(__name__)
_RETRY = 1.0
"""Seconds until the next attempt to accept a connection."""


class SocketLost(TfscaleError):
    """A socket that cannot be made."""


class ReportServer:
    """Server that restores its socket: logind removes the folder of a session, with all files, at the last logout.

    Processes that cannot use the path, as those of other users, come by the socket's name. Every process of the host
    may try that; only those for which `is_of_task` holds are heard.

    Args:
        path: where the socket is.
        reports: what takes the connections.
        elsewhere: function that returns a path at which a socket can be made, and raises a TfscaleError without one.
        is_of_task: function that decides whether a process, by its number, belongs to the task.
    """

    def __init__(
        self, path: Path, reports: ProbeReports, elsewhere: Callable[[], str], is_of_task: Callable[[int], bool]
    ) -> None:
        self.path = path
        self._reports = reports
        self._elsewhere = elsewhere
        self._is_of_task = is_of_task
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._named: socket.socket | None = None
        self._accepting_named: asyncio.Task[None] | None = None
        self._refused: set[int] = set()
        """Users whose processes were refused, which is logged once for each."""

    async def start(self) -> None:
        """Serve the socket, elsewhere if its place cannot be used. Raises a TfscaleError if no place can."""
        try:
            self._serve()
        except SocketLost as error:
            self._move(str(error))
        self._serve_name()

    async def keep(self) -> None:
        """Serve anew if the socket was removed; connected processes stay connected. Raises a TfscaleError."""
        if not self.path.is_socket():
            await self._close()
            self._move(f"{self.path} was removed, as at a logout")

    async def stop(self) -> None:
        await self._close()
        await _end(self._accepting_named, self._named)
        self._accepting_named = self._named = None
        self._reports.close()

    def _move(self, why: str) -> None:
        self.path = Path(self._elsewhere())
        self._serve()
        _logger.warning("%s: reports come to %s now, or to the socket's name", why, self.path)

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
        self._listening = listening
        self._accepting = _accepting(listening, self._accept(listening, lambda _: True))

    def _serve_name(self) -> None:
        named = socket.socket(socket.AF_UNIX)
        try:
            named.bind(socket_name(str(self.path)))
        except OSError as error:
            named.close()
            _logger.warning("processes of other users than this agent's cannot report: %s", error)
        else:
            self._named = named
            self._accepting_named = _accepting(named, self._accept(named, self._comes_from_task))

    def _comes_from_task(self, process: socket.socket) -> bool:
        """Decide whether the task's process has connected, and no other that has its number by now."""
        pid, user = connected_process(process)
        if user_of(pid) == user and self._is_of_task(pid):
            return True
        if user not in self._refused:
            self._refused.add(user)
            _logger.warning("refused process %d of user %d, which does not belong to the task", pid, user)
        return False

    async def _close(self) -> None:
        if self._listening is None:
            return
        await _end(self._accepting, self._listening)
        self._accepting = self._listening = None
        self._remove()

    def _remove(self) -> None:
        """Remove the socket, which the next agent of this task makes anew."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    async def _accept(self, listening: socket.socket, admits: Callable[[socket.socket], bool]) -> None:
        while True:
            try:
                process, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                # Out of files, for example: it may have them again.
                _logger.warning("a process of the task cannot connect, tried again in %g s: %s", _RETRY, error)
                await asyncio.sleep(_RETRY)
            else:
                if admits(process):
                    self._reports.accept(process)
                else:
                    process.close()


def _accepting(listening: socket.socket, accept: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    listening.listen()
    listening.setblocking(False)
    return asyncio.create_task(accept)


async def _end(accepting: asyncio.Task[None] | None, listening: socket.socket | None) -> None:
    if accepting is not None and listening is not None:
        accepting.cancel()
        await asyncio.wait([accepting])
        listening.close()
