"""Copy of the task's output on the agent's own, for a person who put the agent in front of their command."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import select
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.on_demand.rotated_logs import bytes_after, newer_log, open_log
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_state import read_state
from tfscale.core.cluster.task_files import TaskFiles

_logger = logging.getLogger(__name__)
_POLL = 0.1
"""Seconds between two looks at a log that does not grow."""
_CHUNK = 1 << 16
"""Bytes of one read."""
_PIECE = select.PIPE_BUF
"""Bytes of one write, which a pipe takes as a whole or not at all: so it is known how many were not taken."""
_FAREWELL = 1.0
"""Seconds that the end of an agent waits for readers of its task's output, where somebody has asked for that end."""
_LOOK = 0.01
"""Seconds between two looks whether these readers have all of it."""


def goes_together() -> bool:
    """Decide whether the agent's stdout and stderr are the same, as in a terminal or after `2>&1`."""
    return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())


@contextlib.asynccontextmanager
async def shown_output(settings: AgentSettings, is_asked: Callable[[], bool]) -> AsyncIterator[None]:
    """Copy the task's output to stdout and stderr in this block, if the settings ask for it.

    A thread copies each, so that a terminal that is stopped (ctrl-S) stops neither the agent nor the task. After a task
    that has ended by itself the block's end waits for the reader of both, as the task itself would, until `is_asked`
    tells that somebody has asked the agent to end.
    """
    if not settings.show_output:
        yield
        return
    files = settings.files
    # Both, because an earlier agent that started the task may have had them apart.
    copies = [_Copy(files.shown, "stdout", files.log), _Copy(files.shown_errors, "stderr", files.log)]
    for copy in copies:
        copy.thread.start()
    try:
        yield
    finally:
        for copy in copies:
            copy.ending.set()
        await _end(copies, settings.files, is_asked)


async def _end(copies: list[_Copy], files: TaskFiles, is_asked: Callable[[], bool]) -> None:
    """Wait for the readers, tell how much they have not got, and remove what was copied where the task has ended."""
    disk = FileThread()
    try:
        state = await disk.call(lambda: read_state(files.shim_state))
    except DiskHangs:
        state = None
    has_ended = state is not None and state.ended is not None
    is_waited_for = has_ended and state is not None and not state.requested
    await _shown(copies, lambda: is_asked() or not is_waited_for)
    deadline = time.monotonic() + _FAREWELL
    await _shown(copies, lambda: time.monotonic() > deadline)
    for copy in copies:
        with contextlib.suppress(DiskHangs):
            if lost := await disk.call(copy.lost):
                _logger.warning(
                    "nobody reads %s: the task's last %d bytes there are in %s", copy.stream, lost, files.log
                )
            if has_ended:  # else the next agent shows it
                await disk.call(copy.remove)


async def _shown(copies: list[_Copy], is_given_up: Callable[[], bool]) -> None:
    """Wait until the readers have all, or no longer."""
    while any(copy.thread.is_alive() for copy in copies) and not is_given_up():  # noqa: ASYNC110
        await asyncio.sleep(_LOOK)


class _Copy:
    """Follower of a log of the task's output, which the shim writes and rotates meanwhile."""

    def __init__(self, shown: Path, stream: str, log: Path) -> None:
        self.ending = threading.Event()
        run = contextvars.copy_context().run  # its lines of the log name the same task
        self.thread = threading.Thread(target=run, args=(self._run,), name=f"shown {stream}", daemon=True)
        self.stream = stream
        self._number = getattr(sys, stream).fileno()
        self._shown, self._log = shown, log
        self._has_gap = False
        self._waiting = 0
        """Bytes that were read, and not taken by the stream yet."""
        self._file = open_log(shown)
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def _run(self) -> None:
        try:
            while True:
                # Asked before the log is read to its end: nothing is written later.
                is_last = self.ending.is_set()
                self._copy()
                if is_last:
                    return
                self.ending.wait(_POLL)
        except OSError as error:
            is_left = isinstance(error, BrokenPipeError)
            why = f"nobody reads {self.stream} any more" if is_left else f"{self.stream}: {error.strerror}"
            _logger.warning("%s: the task goes on, and its output is in %s", why, self._log)

    def lost(self) -> int:
        """Return how many bytes are not shown."""
        return self._waiting + bytes_after(self._shown, self._file) if self.thread.is_alive() else 0

    def remove(self) -> None:
        """Remove the files: all of them is in the task's log, too."""
        for path in self._shown.parent.glob(f"{self._shown.name}*"):
            path.unlink(missing_ok=True)

    def _copy(self) -> None:
        self._copy_rest()
        while (newer := newer_log(self._shown, self._file)) is not None:
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
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Write all bytes to a stream, which another program may have made non-blocking. Raises OSError."""
        self._waiting = len(data)
        while data:
            try:
                data = data[os.write(self._number, data[:_PIECE]) :]
                self._waiting = len(data)
            except BlockingIOError:
                # Not select(): it refuses numbers above 1023, which an agent with many connections has.
                poll = select.poll()
                poll.register(self._number, select.POLLOUT)
                poll.poll()
