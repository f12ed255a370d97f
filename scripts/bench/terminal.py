"""A program in a pseudo-terminal, for scripts/bench/console.py."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time

SIZE = (200, 50)
"""Columns and lines."""


class Terminal:
    """A program in a pseudo-terminal; its output is read all the time, and the answer to a key can be timed."""

    def __init__(self, command: list[str], size: tuple[int, int] = SIZE) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LANG="C.UTF-8")
            os.execvp(command[0], command)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._drawn = b""
        self.written = 0
        """Bytes that the program has written so far."""
        self._lock = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            select.select([self._master], [], [])
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            with self._lock:
                self.written += len(data)
                self._drawn = (self._drawn + data)[-(1 << 20) :]
                self._lock.notify_all()

    def wait_for(self, pattern: bytes, patience: float) -> bool:
        """Return True when the program draws this within `patience` seconds from now on."""
        found = re.compile(pattern, re.DOTALL)
        with self._lock:
            return self._lock.wait_for(lambda: found.search(self._drawn) is not None, patience)

    def answer(self, key: bytes, pattern: bytes, patience: float = 2.0) -> float | None:
        """Press a key; return the seconds until the pattern is drawn, None where it is not."""
        with self._lock:
            self._drawn = b""
        begin = time.perf_counter()
        os.write(self._master, key)
        return time.perf_counter() - begin if self.wait_for(pattern, patience) else None

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)
