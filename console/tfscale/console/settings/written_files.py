"""Refusal to write over a file that the same command reads, or writes for another purpose."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tfscale.core.errors import UsageError

PlacedPath = tuple[str, Path]
"""A file, with the flag, variable or key that names it."""


def refuse_overwriting(written: Iterable[PlacedPath], read: Iterable[PlacedPath]) -> None:
    """Raise UsageError where a written file is also read, or is written for two places, under whatever names."""
    places = {_identity(path): place for place, path in read}
    for place, path in written:
        identity = _identity(path)
        other = places.setdefault(identity, place)
        if identity is not None and other != place:
            raise UsageError(f"{place} {path}: {other} is the same file, and would be lost: give another name")


def _identity(path: Path) -> tuple[int, int] | str | None:
    """Return a value that is equal for all names of a file; None for a shareable device or pipe: /dev/null."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
