"""Folders of this user for what lives as long as processes do: sockets, and the announcements of agents."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def runtime_folders(environment: Mapping[str, str]) -> list[Path]:
    """List the folders in which such files may lie, the best first: the session's own, then one in the temporary."""
    temporary = Path(tempfile.gettempdir()) / f"tfscale-{os.getuid()}"
    runtime = environment.get("XDG_RUNTIME_DIR")
    return [Path(runtime) / "tfscale", temporary] if runtime else [temporary]


def make_private(folder: Path) -> bool:
    """Make the folder if it is not there; return whether it belongs to this user, and nobody else may write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return is_private(folder)


def is_private(folder: Path) -> bool:
    """Return whether this folder is there, belongs to this user, and nobody else may write to it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022 and folder.is_dir() and not folder.is_symlink()
