"""Copy of the task's output on the agent's stdout, for a person who put the agent in front of their command."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from tfscale.agent.on_demand.task_log import is_replaced, open_log
from tfscale.agent.settings import AgentSettings
from tfscale.core.log_clues import OWN

_POLL = 0.1
"""Seconds between two looks at a log that does not grow."""
_CHUNK = 1 << 16
"""Bytes of one copy."""
_PATIENCE = 5.0
"""Seconds for a terminal that is slow, or stopped, to take the last output."""
_SHIMS = OWN.encode()


@contextlib.contextmanager
def shown_output(settings: AgentSettings) -> Iterator[None]:
    """Copy to stdout what the task writes in this block, if the settings say so.

    A thread copies, so that a terminal that is stopped (ctrl-S) stops neither the agent nor the task.
    """
    if not settings.show_output:
        yield
        return
    copy = _Copy(settings)
    thread = threading.Thread(target=copy.run, name="shown output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        copy.ending.set()
        thread.join(_PATIENCE)


class _Copy:
    """Follower of the task's log, which the shim writes and rotates meanwhile."""

    def __init__(self, settings: AgentSettings) -> None:
        self.ending = threading.Event()
        self._path = settings.files.log
        self._output = TaskOutput()
        self._file = open_log(self._path)
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def run(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads stdout any more
            while True:
                # Asked before the log is read to its end: nothing is written later.
                is_last = self.ending.is_set()
                self._copy()
                if is_last:
                    return
                self.ending.wait(_POLL)

    def _copy(self) -> None:
        self._copy_rest()
        if is_replaced(self._path, self._file):
            # What came between the last read and the rotation.
            self._copy_rest()
            if self._file is not None:
                self._file.close()
            self._file = open_log(self._path)
            self._copy_rest()

    def _copy_rest(self) -> None:
        while self._file is not None and (data := self._file.read(_CHUNK)):
            sys.stdout.buffer.write(self._output.strip(data))
            sys.stdout.buffer.flush()


class TaskOutput:
    """Text of a log without the lines that the shim adds."""

    def __init__(self) -> None:
        self._held = b""
        """Beginning of a line that may be one of the shim's."""
        self._begins = True
        """True if what comes next begins a line."""

    def strip(self, data: bytes) -> bytes:
        """Return what of the next piece of the log, and of what was held back before, the task has written."""
        *lines, rest = (self._held + data).split(b"\n")
        kept = []
        for line in lines:
            if not (self._begins and line.startswith(_SHIMS)):
                kept.append(line + b"\n")
            self._begins = True
        is_held = self._begins and (rest.startswith(_SHIMS) or _SHIMS.startswith(rest))
        self._held = rest if is_held else b""
        self._begins = is_held
        return b"".join([*kept, b"" if is_held else rest])
