"""File with the state of a shim's task. Standard library alone."""

# Importing pathlib would take a sixth of the time until the task starts.
# ruff: noqa: PTH108, PTH123

from __future__ import annotations

import contextlib
import errno
import os

from tfscale.agent.private_file import open_private, replace_for_good

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

_SPARE = 1 << 14
"""Bytes set aside for the last state, which must be written to a full disk, too."""


class StateFile:
    """File that is replaced as a whole. A spare file is set aside for the last state, in case the disk is full."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._spare = path + ".spare"

    def set_aside(self) -> None:
        """Set the spare file aside."""
        with contextlib.suppress(OSError), _private(self._spare) as spare:
            os.posix_fallocate(spare.fileno(), 0, _SPARE)

    def write(self, text: bytes, *, is_last: bool) -> None:
        """Replace the state; the last state must outlive a crash of the machine."""
        try:
            with _private(self._path + ".new") as file:
                file.write(text)
                if is_last:
                    file.flush()
                    os.fsync(file.fileno())
            put = replace_for_good if is_last else os.replace
            put(self._path + ".new", self._path)
        except OSError as error:
            if is_last and error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._write_spare(text)

    def _write_spare(self, text: bytes) -> None:
        with contextlib.suppress(OSError):
            with open(self._spare, "r+b") as spare:
                spare.write(text.ljust(_SPARE))
                spare.flush()
                os.fsync(spare.fileno())
            replace_for_good(self._spare, self._path)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._spare)


def _private(path: str) -> IO[bytes]:
    return open(open_private(path, os.O_WRONLY | os.O_TRUNC), "wb")
