"""File of an agent that is replaced as a whole, on disk first, without waiting for a disk that hangs."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.private_file import open_private, replace_for_good

_ROOM = 64 << 10
"""Bytes that the files of a start have together: journal, state and the room that is set aside for its end."""
_LEAST = 4 << 10
"""Bytes of room below which it is given back as a whole: a block of most disks."""


async def keep(files: FileThread, path: Path, text: str) -> None:
    """Replace a file, which is this user's alone, by this text.

    Raises OSError, and DiskHangs; a write that the disk completes later replaces nothing.
    """
    given_up = threading.Event()
    try:
        await files.call(lambda: _replace(path, text, given_up))
    except (OSError, DiskHangs):
        given_up.set()
        raise


async def set_room_aside(files: FileThread, path: Path) -> None:
    """Check the room as `check_room` does, and hold it until `keep` finds a full disk, or `give_room` is called.

    Raises OSError and DiskHangs.
    """
    await files.call(lambda: _set_aside(_room(path)))


async def give_room(files: FileThread, path: Path) -> None:
    """Give back what is left of the room that was set aside: it is used now. Raises OSError and DiskHangs."""
    await files.call(lambda: _room(path).unlink(missing_ok=True))


async def check_room(files: FileThread, path: Path) -> None:
    """Write and sync the file that would replace this one, with the room that a start takes, and remove it.

    Raises OSError and DiskHangs.
    """
    await files.call(lambda: _try_room(path))


def _try_room(path: Path) -> None:
    trial = path.with_name(path.name + ".new")
    try:
        with os.fdopen(open_private(str(trial), os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    finally:
        trial.unlink(missing_ok=True)


def _room(path: Path) -> Path:
    return path.with_name(path.name + ".room")


def _set_aside(room: Path) -> None:
    descriptor = open_private(str(room), os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, _ROOM)
        os.fsync(descriptor)
    except OSError:
        room.unlink()
        raise
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str, given_up: threading.Event) -> None:
    try:
        _put(path, text, given_up)
    except OSError as error:
        room = _room(path)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not room.exists():
            raise
        # Half of it each time: who else writes may take what is free before the next write.
        half = room.stat().st_size // 2
        os.truncate(room, half) if half >= _LEAST else room.unlink()
        _put(path, text, given_up)


def _put(path: Path, text: str, given_up: threading.Event) -> None:
    temporary = path.with_name(path.name + ".new")
    with os.fdopen(open_private(str(temporary), os.O_WRONLY | os.O_TRUNC), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if not given_up.is_set():
        replace_for_good(str(temporary), str(path))
