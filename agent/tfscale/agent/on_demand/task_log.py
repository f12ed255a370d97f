"""Reader of a task's log, which the shim writes and rotates meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfscale.agent.file_thread import FileThread
from tfscale.agent.on_demand.rotated_logs import newer_log, open_log
from tfscale.core.errors import UsageError

MOST_LINES = 10_000
"""Longest tail."""

_POLL = 0.25
"""Seconds between two reads of a log that does not grow."""
_CHUNK = 1 << 18
"""Bytes of one read."""
_BAR = 1.0
"""Seconds between two states of a progress bar that is drawn repeatedly in one line."""
_LINE = 1 << 14
"""Bytes after which a line without an end is cut."""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Whole lines without their line ends. `rotated` is True if the log was rotated before them."""

    lines: tuple[str, ...]
    rotated: bool = False


async def read_log(path: Path, tail: int, follow: bool, files: FileThread) -> AsyncGenerator[LogLines]:
    """Yield the last `tail` lines, also from the newest rotated log, and with `follow` all later lines.

    Raises UsageError for a longer tail than MOST_LINES, and DiskHangs.
    """
    if tail > MOST_LINES:
        raise UsageError(f"{tail} lines of a log: ask for {MOST_LINES} at most")
    follower = _Follower(path)
    try:
        yield LogLines(tuple(await files.call(lambda: follower.begin(tail, follow))))
        while follow:
            if (lines := await files.call(follower.following)) is not None:
                yield lines
            else:
                await asyncio.sleep(_POLL)
    finally:
        files.finish(follower.close)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log and of the newest rotated one; none if it cannot be read."""
    reader = _LineReader(open_log(path))
    try:
        return [*_last(path.with_name(path.name + ".1"), reader, count), *reader.flush()][-count:]
    except OSError:
        return []
    finally:
        reader.replace(None)


class _Follower:
    """Reader of a log to its end, again and again, across rotations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = _LineReader(None)

    def begin(self, tail: int, follow: bool) -> list[str]:
        """Return the last lines."""
        self._reader.replace(open_log(self._path))
        lines = _last(self._path.with_name(self._path.name + ".1"), self._reader, tail)
        if not tail or follow:
            return lines[-tail:] if tail else []
        return [*lines, *self._reader.flush()][-tail:]

    def following(self) -> LogLines | None:
        """Return the text appended since the last call, None without any; of a progress bar, its newest state."""
        if lines := self._reader.next_lines():
            return LogLines(tuple(lines))
        if (newer := newer_log(self._path, self._reader.file)) is None:
            bar = self._reader.newest_bar()
            return None if bar is None else LogLines((bar,))
        # What came between the last read and the rotation.
        if last := self._reader.next_lines() or self._reader.flush():
            newer.file.close()
            return LogLines(tuple(last))
        rotated = self._reader.file is not None
        self._reader.replace(newer.file)
        return LogLines(tuple(self._reader.next_lines()), rotated)

    def close(self) -> None:
        self._reader.replace(None)


class _LineReader:
    """Reader of the lines that were appended to a file since the last read."""

    def __init__(self, file: BinaryIO | None) -> None:
        self.file = file
        self._rest = b""
        self._shown = b""
        """Unfinished line that `newest_bar` returned last."""
        self._shown_at = 0.0

    def replace(self, file: BinaryIO | None) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self._rest = file, b""

    def skip_to_last(self, size: int) -> bool:
        """Skip all but the last `size` bytes; return whether bytes were skipped, so that the first line may be cut."""
        skipped = self.file is not None and os.fstat(self.file.fileno()).st_size > size
        if skipped and self.file is not None:
            self.file.seek(-size, os.SEEK_END)
        return skipped

    def read(self) -> list[str] | None:
        """Return the next lines, perhaps none; None at the end of the file."""
        if self.file is None or not (data := self.file.read(_CHUNK)):
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = _without_overwritten(self._rest)
        if len(self._rest) > _LINE:
            lines.append(self._rest)
            self._rest = b""
        return [_as_shown(line) for line in lines]

    def next_lines(self) -> list[str]:
        """Return the lines of the next read with any; none at the end of the file."""
        while (lines := self.read()) is not None:
            if lines:
                return lines
        return []

    def newest_bar(self) -> str | None:
        """Return the state of a progress bar without a line end, if it has changed and was not returned for a while."""
        now = time.monotonic()
        if b"\r" not in self._rest or self._rest == self._shown or now - self._shown_at < _BAR:
            return None
        self._shown, self._shown_at = self._rest, now
        return _as_shown(self._rest)

    def flush(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [_as_shown(rest)] if rest else []


def _last(rotated: Path, reader: _LineReader, tail: int) -> list[str]:
    current = _tail(reader, tail)
    if len(current) >= tail or (file := open_log(rotated)) is None:
        return current
    before = _LineReader(file)
    older = _tail(before, tail - len(current)) + before.flush()
    before.replace(None)
    return older[len(current) - tail :] + current


def _without_overwritten(line: bytes) -> bytes:
    """Return the end of an unfinished line: the part that is shown now, and text that may yet overwrite it."""
    shown, _, newest = line.rpartition(b"\r")
    return b"\r".join([shown.rpartition(b"\r")[2], newest]) if shown else line


def _tail(reader: _LineReader, count: int) -> list[str]:
    """Return the last `count` lines, from no more bytes than lines of usual length need."""
    skipped = reader.skip_to_last(max(_CHUNK, 512 * count))
    last: deque[str] = deque(maxlen=count)
    while (lines := reader.read()) is not None:
        last.extend(lines[1:] if skipped else lines)
        skipped = skipped and not lines
    return list(last)


def _as_shown(line: bytes) -> str:
    """Return a line as a terminal shows it: without the text that a carriage return overwrites."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
