"""Log of a task's output, written and rotated by the task's shim. Standard library alone."""

# Importing pathlib would take a sixth of the time until the task starts.
# ruff: noqa: PTH105, PTH108, PTH110, PTH123

from __future__ import annotations

import contextlib
import os
import time
from functools import partial

from tfscale.agent.private_file import open_private
from tfscale.agent.supervision.writer_thread import WriterThread

_LONGEST_LINE = 1 << 16
"""Bytes by which a log may be larger than its limit because no line ends."""


class OutputLog:
    """Append-only file that is rotated at line ends. Writing never fails: bytes that do not fit are counted."""

    def __init__(self, path: str, limit: int, keep: int) -> None:
        self._path, self._limit, self._keep = path, limit, keep
        self._fd: int | None = None
        self._size = 0
        self._gap = 0
        self._begins_line: bool | None = None
        """True if the next byte begins a line; None before the first."""
        self.lost = 0

    def write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._limit:
            cut = self._place_to_cut(data)
            if cut is not None:
                self._add(data[:cut])
                self._rotate()
                data = data[cut:]
        self._add(data)

    def line(self, text: str) -> None:
        """Write a line of the shim's own, with the time (UTC), after ending an unfinished line of the task."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if self._begins_line is None:
            self._begins_line = _ends_with_line(self._path)
        before = "" if self._begins_line else "\n"
        # Arguments and paths need not be UTF-8.
        self.write(f"{before}--- tfscale: {now} {text}\n".encode(errors="backslashreplace"))

    def skip(self, size: int) -> None:
        """Have the log mark the place of bytes that `write` never got."""
        self._gap += size

    def _place_to_cut(self, data: bytes) -> int | None:
        """Return how many bytes go to the old file: up to a line's end, else up to a new state of a bar."""
        if self._begins_line:
            return 0
        if cut := data.find(b"\n") + 1 or data.find(b"\r") + 1:
            return cut
        return 0 if self._size + len(data) > self._limit + _LONGEST_LINE else None

    def _add(self, data: bytes) -> None:
        if data:
            self._append(data)
            self._begins_line = data.endswith(b"\n")

    def _append(self, data: bytes) -> None:
        try:
            if self._gap:
                self._put(f"\n--- tfscale: {self._gap} bytes of output could not be written\n".encode())
                self._gap = 0
            while data:
                data = data[self._put(data) :]
        except OSError:
            self._gap += len(data)
            self.lost += len(data)

    def _put(self, data: bytes) -> int:
        if self._fd is None:
            self._fd = open_private(self._path, os.O_WRONLY | os.O_APPEND)
            self._size = os.fstat(self._fd).st_size
        written = os.write(self._fd, data)
        self._size += written
        return written

    def _rotate(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._size = 0
        with contextlib.suppress(OSError):
            for number in range(self._kept() + 1, 0, -1):
                os.replace(self._rotated(number - 1), self._rotated(number))
            if self._keep == 0:
                os.unlink(self._path)

    def _kept(self) -> int:
        """Return the number of rotated logs that stay: those numbered without a gap, up to the most allowed."""
        if self._keep == 0:
            return -1
        number = 0
        while number < self._keep - 1 and os.path.exists(self._rotated(number + 1)):
            number += 1
        return number

    def _rotated(self, number: int) -> str:
        return f"{self._path}.{number}" if number else self._path


class BackgroundLog:
    """Log that a thread writes: output that a slow or hanging disk does not take is dropped and counted there."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log
        self._thread = WriterThread("output")
        self._dropped = 0
        self._untold = 0
        """Bytes that were dropped since the last write that marks a gap was given to the thread."""

    @property
    def lost(self) -> int:
        """Bytes of output that could not be written so far."""
        return self._log.lost + self._dropped

    def write(self, data: bytes) -> None:
        if self._thread.offer(len(data), partial(self._write_after, self._untold, data)):
            self._untold = 0
        else:
            self._untold += len(data)
            self._dropped += len(data)

    def line(self, text: str) -> None:
        self._thread.insist(partial(self._line_after, self._untold, text))
        self._untold = 0

    def close(self, patience: float) -> None:
        """Wait until all is written; output that still waits after `patience` seconds counts as lost."""
        self._dropped += self._thread.close(patience)

    def _write_after(self, gap: int, data: bytes) -> None:
        self._log.skip(gap)
        self._log.write(data)

    def _line_after(self, gap: int, text: str) -> None:
        self._log.skip(gap)
        self._log.line(text)


def _ends_with_line(path: str) -> bool:
    """Decide whether the next byte of a file begins a line."""
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # it is not there, or empty
        return True
