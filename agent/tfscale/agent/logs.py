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
    yield LogLines(tuple(_last(path.with_name(path.name + ".1"), reader, tail)))
    try:
        while follow:
            lines = reader.read()
            if lines:
                yield LogLines(tuple(lines))
                continue
            if _replaced(path, reader.file):
                reader.replace(_open(path))
                yield LogLines(tuple(reader.read()), rotated=True)
                continue
            await asyncio.sleep(_LOOK)
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
    current: deque[str] = deque(maxlen=tail)
    while lines := reader.read():
        current.extend(lines)
    if len(current) < tail and (file := _open(rotated)) is not None:
        older: deque[str] = deque(maxlen=tail - len(current))
        before = _Reader(file)
        while lines := before.read():
            older.extend(lines)
        before.replace(None)
        return [*older, *current]
    return list(current)


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
