"""Reader of a task's log, which the shim writes and rotates meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_POLL = 0.25
"""Seconds between two reads of a log that does not grow."""
_CHUNK = 1 << 18
"""Bytes of one read."""
_LINE = 1 << 14
"""Bytes after which a line without an end is cut."""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Whole lines without their line ends. `rotated` is True if the log was rotated before them."""

    lines: tuple[str, ...]
    rotated: bool = False


async def read_log(path: Path, tail: int, follow: bool) -> AsyncIterator[LogLines]:
    """Yield the last `tail` lines, also from the newest rotated log, and with `follow` all later lines."""
    file = open_log(path)
    reader = _LineReader(file)
    try:
        lines = _last(path.with_name(path.name + ".1"), reader, tail)
        yield LogLines(tuple(lines if follow else [*lines, *reader.flush()][-tail:] if tail else ()))
        while follow:
            lines = reader.read()
            if lines:
                yield LogLines(tuple(lines))
                continue
            if (newer := newer_log(path, reader.file)) is not None:
                if last := [*reader.read(), *reader.flush()]:
                    yield LogLines(tuple(last))
                rotated = reader.file is not None
                reader.replace(newer.file)
                yield LogLines(tuple(reader.read()), rotated)
                continue
            await asyncio.sleep(_POLL)
    finally:
        reader.replace(None)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log and of the newest rotated one; none if it cannot be read."""
    reader = _LineReader(open_log(path))
    try:
        return [*_last(path.with_name(path.name + ".1"), reader, count), *reader.flush()][-count:]
    except OSError:
        return []
    finally:
        reader.replace(None)


class _LineReader:
    """Reader of the lines that were appended to a file since the last read."""

    def __init__(self, file: BinaryIO | None) -> None:
        self.file = file
        self._rest = b""

    def replace(self, file: BinaryIO | None) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self._rest = file, b""

    def skip_to_last(self, size: int) -> bool:
        """Skip all but the last `size` bytes; return whether anything was skipped, so that a line may be cut."""
        skipped = self.file is not None and os.fstat(self.file.fileno()).st_size > size
        if skipped and self.file is not None:
            self.file.seek(-size, os.SEEK_END)
        return skipped

    def read(self) -> list[str]:
        if self.file is None:
            return []
        data = self._rest + self.file.read(_CHUNK)
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > _LINE:
            lines.append(self._rest)
            self._rest = b""
        return [_as_shown(line) for line in lines]

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


def _tail(reader: _LineReader, count: int) -> list[str]:
    """Return the last `count` lines, from no more bytes than lines of usual length need."""
    skipped = reader.skip_to_last(max(_CHUNK, 512 * count))
    last: deque[str] = deque(maxlen=count)
    while lines := reader.read():
        last.extend(lines[1:] if skipped else lines)
        skipped = False
    return list(last)


def _as_shown(line: bytes) -> str:
    """Return a line as a terminal shows it: without the text that a carriage return overwrites."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")


def open_log(path: Path) -> BinaryIO | None:
    """Open a log; None where it cannot be read, or is not there yet."""
    try:
        return path.open("rb")
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class NewerLog:
    """File in which a log goes on."""

    file: BinaryIO
    is_gap: bool
    """True if files between the last one and this one may have been rotated away."""


def newer_log(path: Path, file: BinaryIO | None) -> NewerLog | None:
    """Return the file after this one, once it was rotated, truncated, or made at last; None while it is the newest."""
    if not _is_replaced(path, file):
        return None
    number = 0 if file is None else _rotations(path, file)
    newer = open_log(_rotated(path, max(0, number - 1)) if number is not None else _oldest(path))
    if newer is None or (file is not None and number and not _is_file(_rotated(path, number), file)):
        # It is being rotated at this moment.
        return None
    return NewerLog(newer, is_gap=number is None)


def _is_replaced(path: Path, file: BinaryIO | None) -> bool:
    try:
        newest = path.stat()
    except OSError:
        return False
    return file is None or not _is_file(path, file) or newest.st_size < file.tell()


def _rotations(path: Path, file: BinaryIO) -> int | None:
    """Return how often this file was rotated, None if it was rotated away.

    The search goes the way of a file, which is at no lower number when the next one is looked at.
    """
    return next((number for number in _numbers(path) if _is_file(_rotated(path, number), file)), None)


def _oldest(path: Path) -> Path:
    return _rotated(path, max(_numbers(path), default=0))


def _numbers(path: Path) -> Iterator[int]:
    """Yield the numbers of all files of a log, among which one may be missing while they are rotated."""
    missing = 0
    for number in itertools.count():
        missing = 0 if _rotated(path, number).exists() else missing + 1
        if missing > 1:
            return
        if not missing:
            yield number


def _rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _is_file(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False
