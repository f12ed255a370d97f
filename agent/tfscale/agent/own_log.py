"""Handler for the agent's own log, which waits for nobody: a stderr that is not read must not stop the agent."""

from __future__ import annotations

import logging
from typing import TextIO

from tfscale.agent.supervision.writer_thread import WriterThread

_FAREWELL = 1.0
"""Seconds that the end of the agent waits for a reader of its last lines."""


class OwnLog(logging.StreamHandler[TextIO]):
    """Handler whose lines a thread writes, in their order; it counts those for which no room was left."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._thread = WriterThread("own log")
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written soon."""
        try:
            self.say(self.format(record))
        except Exception:
            self.handleError(record)

    def say(self, line: str) -> None:
        """Have a line written soon as it is."""
        lost = f"... {self._lost} lines of the log were lost, because nobody read stderr\n" if self._lost else ""
        text = f"{lost}{line}\n"
        is_taken = self._thread.offer(len(text), lambda: self._write(text))
        self._lost = 0 if is_taken else self._lost + 1

    def close(self) -> None:
        """Wait a moment until all lines are written."""
        self._thread.close(_FAREWELL)
        super().close()

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            # There is no other place to say it: as for `logging` itself, a stderr that is gone costs the line.
            pass
