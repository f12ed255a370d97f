"""Copy of the task's output on the agent's stdout, for a person who put the agent in front of their command."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tfscale.agent.on_demand.rotated_logs import newer_log, open_log
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.output_log import UNFINISHED
from tfscale.core.log_clues import OWN

_logger = logging.getLogger(__name__)
_POLL = 0.1
"""Seconds between two looks at a log that does not grow."""
_CHUNK = 1 << 16
"""Bytes of one copy."""
_SHIMS = OWN.encode()
_OF_SHIM = re.escape(_SHIMS) + rb"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ |\d+ bytes of output could )[^\n]*"
_ADDED = re.compile(
    # The line end before such a line is the shim's, too.
    rb"\n%b%b\n(?:%b\n)*|^%b\n" % (_OF_SHIM, re.escape(UNFINISHED.encode()), _OF_SHIM, _OF_SHIM),
    re.MULTILINE,
)


@contextlib.contextmanager
def shown_output(settings: AgentSettings) -> Iterator[None]:
    """Copy the task's output to stdout in this block, if the settings ask for it.

    A thread copies, so that a terminal that is stopped (ctrl-S) stops neither the agent nor the task. The block's end
    waits for the reader of stdout, as the task itself would.
    """
    if not settings.show_output:
        yield
        return
    copy = _Copy(settings.files.log)
    run = contextvars.copy_context().run  # its lines of the log name the same task
    thread = threading.Thread(target=run, args=(copy.run,), name="shown output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        copy.ending.set()
        thread.join()


class _Copy:
    """Follower of the task's log, which the shim writes and rotates meanwhile."""

    def __init__(self, log: Path) -> None:
        self.ending = threading.Event()
        self._log = log
        self._output = TaskOutput()
        self._has_gap = False
        self._file = open_log(log)
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def run(self) -> None:
        try:
            while True:
                # Asked before the log is read to its end: nothing is written later.
                is_last = self.ending.is_set()
                self._copy()
                if is_last:
                    return
                self.ending.wait(_POLL)
        except OSError as error:
            why = "nobody reads stdout any more" if isinstance(error, BrokenPipeError) else f"stdout: {error.strerror}"
            _logger.warning("%s: the task goes on, and its output is in %s", why, self._log)

    def _copy(self) -> None:
        self._copy_rest()
        while (newer := newer_log(self._log, self._file)) is not None:
            # What came between the last read and the rotation.
            self._copy_rest()
            if self._file is not None:
                self._file.close()
            self._file = newer.file
            if newer.is_gap and not self._has_gap:
                self._has_gap = True
                _logger.warning("output was rotated away before it was shown: part of it may be missing here")
            self._copy_rest()

    def _copy_rest(self) -> None:
        while self._file is not None and (data := self._file.read(_CHUNK)):
            if data.endswith(b"\n"):
                # The line end may be the shim's, which it writes together with its own line.
                data += self._file.read(_CHUNK)
            _write(self._output.strip(data))


def _write(data: bytes) -> None:
    """Write all bytes to stdout, which another program may have made non-blocking. Raises OSError."""
    number = sys.stdout.fileno()
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:
            select.select([], [number], [])


class TaskOutput:
    """Text of a log without the lines of the shim."""

    def __init__(self) -> None:
        self._held = b""
        """Beginning of a line that may be one of the shim's."""
        self._begins = True
        """True if what comes next begins a line."""

    def strip(self, data: bytes) -> bytes:
        """Return the task's own output in the next piece of the log and in text that was held back before."""
        lines, end, rest = (self._held + data).rpartition(b"\n")
        kept = self._strip_lines(lines + end) if end else b""
        begins = self._begins or bool(end)
        is_held = begins and (rest.startswith(_SHIMS) or _SHIMS.startswith(rest))
        self._held = rest if is_held else b""
        self._begins = is_held
        return kept if is_held else kept + rest

    def _strip_lines(self, lines: bytes) -> bytes:
        """Return whole lines without the shim's; a shim's line never begins in the midst of a line."""
        before = b"" if self._begins else b"."
        return _ADDED.sub(b"", before + lines)[len(before) :]
