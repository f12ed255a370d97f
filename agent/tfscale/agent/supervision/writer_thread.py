"""Thread that carries out writes in their order, so that a hanging disk delays nobody. Standard library alone."""

from __future__ import annotations

import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WAITING = 8 << 20
"""Bytes that may wait for the disk."""
_PATIENCE = 1.0
"""Seconds for which a write may wait for room, once a disk that had kept up falls behind: a flood of output is not
the disk's fault, nor is the removal of a rotated log."""


class WriterThread:
    """Queue of writes. A write without room is refused, so that its caller can count it and go on."""

    def __init__(self, name: str) -> None:
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._bytes = 0
        self._is_behind = False
        self._is_ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def offer(self, size: int, write: Callable[[], None]) -> bool:
        """Queue a write of `size` bytes; return False if too many bytes wait already."""
        with self._changed:
            if not self._has_room(size):
                return False
            self._put(size, write)
            return True

    def insist(self, write: Callable[[], None]) -> None:
        """Have a small write carried out, however many wait."""
        with self._changed:
            self._put(0, write)

    def wait(self, patience: float) -> None:
        """Wait until all writes so far are done, at most `patience` seconds."""
        is_written = threading.Event()
        self.insist(is_written.set)
        is_written.wait(patience)

    def close(self, patience: float) -> int:
        """Wait until all is written, and return how many bytes still wait after `patience` seconds."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(patience)
        return self._bytes

    def _has_room(self, size: int) -> bool:
        if self._is_behind and self._bytes > _WAITING // 2:
            return False
        self._is_behind = not self._changed.wait_for(lambda: self._bytes + size <= _WAITING, _PATIENCE)
        return not self._is_behind

    def _put(self, size: int, write: Callable[[], None]) -> None:
        self._waiting.append((size, write))
        self._bytes += size
        self._changed.notify_all()

    def _run(self) -> None:
        while (following := self._next()) is not None:
            size, write = following
            write()
            with self._changed:
                self._bytes -= size
                self._changed.notify_all()

    def _next(self) -> tuple[int, Callable[[], None]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
            return self._waiting.popleft() if self._waiting else None
