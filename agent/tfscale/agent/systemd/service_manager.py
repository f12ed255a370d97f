"""Words to the service manager that has started this agent: that it serves, lives, what its tasks do, and that it ends.

The protocol is that of systemd's sd_notify(3): datagrams to the Unix socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping

_TICK = 1.0
_QUIET = 5.0
"""Least seconds between two status lines that differ in numbers alone: everybody who follows the service hears it."""
_NUMBERS = re.compile(r"\d+")
_MOST_TEXT = 1000


class ServiceManager:
    """Manager at a socket, nobody where that is empty. `watchdog` is the time in seconds in which it wants a sign."""

    def __init__(self, path: str = "", watchdog: float | None = None) -> None:
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self._tick = _TICK if watchdog is None else min(_TICK, watchdog / 2)
        self._is_watched = watchdog is not None
        self._told: tuple[float, str] = (0.0, "")

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """Return the manager of these variables, and remove them: tasks inherit the others, and are not the service."""
        path, pid = environment.pop("NOTIFY_SOCKET", ""), environment.pop("WATCHDOG_PID", "")
        period = environment.pop("WATCHDOG_USEC", "")
        is_own = period.isdecimal() and int(period) > 0 and pid in ("", str(os.getpid()))
        return cls(path, int(period) / 1e6 if is_own else None)

    async def follow(
        self, begins: Callable[[], Awaitable[bool]], summary: Callable[[], str], is_asked_to_end: Callable[[], bool]
    ) -> None:
        """Tell the manager of the service until cancelled; `begins` is false where it does not start."""
        if not self._path or not await begins():
            return
        self._send("READY=1")
        try:
            while not is_asked_to_end():
                self._tell(summary())
                await asyncio.sleep(self._tick)
            self._send("STOPPING=1\nSTATUS=ends its tasks")
            while True:
                self._tell(self._told[1])
                await asyncio.sleep(self._tick)
        finally:
            self._send("STATUS=has ended")

    def _tell(self, status: str) -> None:
        """Give a sign of life, and the status line where it is another one."""
        now, (told_at, told) = time.monotonic(), self._told
        words = ["WATCHDOG=1"] if self._is_watched else []
        is_other = _NUMBERS.sub("", status) != _NUMBERS.sub("", told)
        if is_other or (status != told and now - told_at >= _QUIET):
            self._told = (now, status)
            words.append(f"STATUS={' '.join(status.split())[:_MOST_TEXT]}")
        if words:
            self._send("\n".join(words))

    def _send(self, text: str) -> None:
        """Send a message; a manager that is busy or gone misses it."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), self._path)
