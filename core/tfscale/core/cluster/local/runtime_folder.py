"""Folders of this user for what lives as long as processes do: sockets, and the announcements of agents."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tfscale.core.cluster.local.private_folder import make_private


def runtime_folders(environment: Mapping[str, str]) -> list[Path]:
    """List the folders for runtime files, the best first: the session's own, then one in the temporary folder."""
    temporary = Path(tempfile.gettempdir()) / f"tfscale-{getpass.getuser() if sys.platform == 'win32' else os.getuid()}"
    runtime = environment.get("XDG_RUNTIME_DIR")
    return [Path(runtime) / "tfscale", temporary] if runtime else [temporary]


def made_runtime_folders(environment: Mapping[str, str]) -> list[Path]:
    """List the runtime folders that exist or can be made, and are private."""
    return [folder for folder in runtime_folders(environment) if _is_made(folder)]


def _is_made(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return make_private(folder) is None
    return False
