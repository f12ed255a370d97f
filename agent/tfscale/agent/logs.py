"""Reading a task's log while the shim writes and rotates it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_LOOK = 0.25
"""Seconds between two looks at a log that has not grown."""
_CHUNK = 1 << 18
_LINE = 1 << 14
"""Bytes at which a line without an end is cut."""


@dataclass(frozen=True, slots=True)
class LogLines:
    """Whole lines without their ends. `rotated`: the log was replaced before them."""

    lines: tuple[str, ...]
    rotated: bool = False


async def read_log(path: Path, tail: int, follow: bool) -> AsyncIterator[LogLines]:
    """The last `tail` lines, also from the log rotated away last, and with `follow` all that come after."""
    file = _open(path)
    reader = _Reader(file)
    try:
        lines = _last(path.with_name(path.name + ".1"), reader, tail)
        yield LogLines(tuple(lines if follow else [*lines, *reader.flush()][-tail:] if tail else ()))
        while follow:
            lines = reader.read()
            if lines:
                yield LogLines(tuple(lines))
                continue
            if _replaced(path, reader.file):
                if last := [*reader.read(), *reader.flush()]:
                    yield LogLines(tuple(last))
                rotated = reader.file is not None
                reader.replace(_open(path))
                yield LogLines(tuple(reader.read()), rotated)
                continue
            await asyncio.sleep(_LOOK)
    finally:
        reader.replace(None)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log, also of the one rotated away last; none where it cannot be read."""
    reader = _Reader(_open(path))
    try:
        return [*_last(path.with_name(path.name + ".1"), reader, count), *reader.flush()][-count:]
    except OSError:
        return []
    finally:
        reader.replace(None)


class _Reader:
    """Cuts what a file has grown by into lines."""

    def __init__(self, file: BinaryIO | None) -> None:
        self.file = file
        self._rest = b""

    def replace(self, file: BinaryIO | None) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self._rest = file, b""

    def skip_to_last(self, size: int) -> bool:
        """Leave out all but the last bytes; whether that cut a line."""
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
        return [_shown(line) for line in lines]

    def flush(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [_shown(rest)] if rest else []


def _last(rotated: Path, reader: _Reader, tail: int) -> list[str]:
    current = _tail(reader, tail)
    if len(current) >= tail or (file := _open(rotated)) is None:
        return current
    before = _Reader(file)
    older = _tail(before, tail - len(current)) + before.flush()
    before.replace(None)
    return older[len(current) - tail :] + current


def _tail(reader: _Reader, count: int) -> list[str]:
    """The last lines, of which not more is read than `count` lines of usual length can need."""
    skipped = reader.skip_to_last(max(_CHUNK, 512 * count))
    found: deque[str] = deque(maxlen=count)
    while lines := reader.read():
        found.extend(lines[1:] if skipped else lines)
        skipped = False
    return list(found)


def _shown(line: bytes) -> str:
    """A line as a terminal would leave it: what a carriage return overwrote is gone."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except OSError:
        return None


def _replaced(path: Path, file: BinaryIO | None) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    if file is None:
        return True
    own = os.fstat(file.fileno())
    return (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino) or found.st_size < file.tell()
