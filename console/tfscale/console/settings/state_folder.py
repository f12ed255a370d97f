"""Folder of files that the console keeps from one start to the next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/tfscale`."""
    home = environment.get("XDG_STATE_HOME")
    return Path(home) / "tfscale" if home else Path(platformdirs.user_state_dir("tfscale"))
