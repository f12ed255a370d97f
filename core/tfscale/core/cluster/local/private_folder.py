"""Folders in which no other user may put, change or replace a file."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def make_private(folder: Path) -> str | None:
    """Make the folder and its parents if they are absent. Return why the folder is not private, None if it is.

    Raises OSError.
    """
    if not folder.is_dir():
        for each in (*reversed(folder.parents), folder):
            _make(each)
    return why_not_private(folder)


def why_not_private(folder: Path) -> str | None:
    """Return why files in this folder may come from other users, and what helps. Raises OSError."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "is a link" if stat.S_ISLNK(status.st_mode) else "is no folder"
    if sys.platform == "win32":
        return None  # no owner and no bits of others to look at: folders below a user's own are the user's
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}"
    return f"others may write there: chmod go-w {folder}" if status.st_mode & 0o022 else None


def is_private(folder: Path) -> bool:
    """Return whether this folder is there and private."""
    try:
        return why_not_private(folder) is None
    except OSError:
        return False


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    folder.chmod(0o700)  # whatever the umask
