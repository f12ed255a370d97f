"""Files of the kernel that are read each second, and the numbers in them."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

_READ_BYTES = 1 << 14


class KernelFile:
    """Kernel file that is kept open: each read gives its newest contents, and costs less than opening."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = -1
        self._close: weakref.finalize[..., KernelFile] | None = None

    def read(self) -> bytes:
        """Return the present contents. Raises OSError; the next call then opens the file again."""
        if self._close is None:
            self._number = os.open(self._path, os.O_RDONLY)
            self._close = weakref.finalize(self, os.close, self._number)
        contents = b""
        try:
            while more := os.pread(self._number, _READ_BYTES, len(contents)):
                contents += more
        except OSError:
            self._close()
            self._close = None
            raise
        return contents

    def read_if_there(self) -> bytes:
        """Return the current contents, empty where the kernel or the container has no such file."""
        try:
            return self.read()
        except OSError:
            return b""


def number_after(text: bytes, name: bytes) -> float | None:
    """Return the number that follows a name in a kernel file, None without this name."""
    rest = text.partition(name)[2].split(maxsplit=1)
    return float(rest[0]) if rest else None


def contents_of(path: str) -> bytes:
    """Return the contents of a process's or thread's file, which are empty where it has ended or is hidden."""
    try:
        number = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""
    try:
        return os.read(number, _READ_BYTES)
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(number)


def names_in(folder: str) -> list[str]:
    """Return the decimal entries of a folder in /proc; nothing where its process or thread has ended."""
    try:
        return [entry.name for entry in os.scandir(folder) if entry.name.isdecimal()]
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return []
