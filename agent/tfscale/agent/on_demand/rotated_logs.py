"""Files of a rotated log, in the order in which they were written."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


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
    """Return the file after this one, which exists once this one was rotated, truncated or made at last; else None."""
    if not _is_replaced(path, file):
        return None
    number = 0 if file is None else _rotations(path, file)
    newer = open_log(_rotated(path, max(0, number - 1)) if number is not None else _oldest(path))
    if newer is None or (file is not None and number and not _is_file(_rotated(path, number), file)):
        # It is being rotated at this moment.
        return None
    return NewerLog(newer, is_gap=number is None)


def bytes_after(path: Path, file: BinaryIO | None) -> int:
    """Return how many bytes of a log come after those that were read from this file of it."""
    rotations = None if file is None else _rotations(path, file)
    newer = sum(_rotated(path, number).stat().st_size for number in _numbers(path) if number < (rotations or 0))
    return newer + (0 if file is None else os.fstat(file.fileno()).st_size - file.tell())


def _is_replaced(path: Path, file: BinaryIO | None) -> bool:
    try:
        newest = path.stat()
    except OSError:
        return False
    return file is None or not _is_file(path, file) or newest.st_size < file.tell()


def _rotations(path: Path, file: BinaryIO) -> int | None:
    """Return how often this file was rotated, None if it was rotated away.

    The search goes in the direction of a rotation: a file's number never falls between two looks.
    """
    return next((number for number in _numbers(path) if _is_file(_rotated(path, number), file)), None)


def _oldest(path: Path) -> Path:
    return _rotated(path, max(_numbers(path), default=0))


def _numbers(path: Path) -> Iterator[int]:
    """Yield the numbers of all files of a log, with at most one gap, which a rotation leaves for a moment."""
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
