"""Folders of this user: for configuration, and for what is kept from one start to the next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from tfscale.core.errors import UsageError

_NOWHERE = Path("/nonexistent/.config/tfscale")
"""Folder of a user who has none: a container's often has neither HOME nor an entry in /etc/passwd."""


def config_folder(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/tfscale`."""
    if home := environment.get("XDG_CONFIG_HOME"):
        return Path(home) / "tfscale"
    try:
        return Path(platformdirs.user_config_dir("tfscale"))
    except RuntimeError:
        return _NOWHERE


def user_state_folder(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/tfscale`. Raises UsageError where this user has no home."""
    if home := environment.get("XDG_STATE_HOME"):
        return Path(home) / "tfscale"
    try:
        return Path(platformdirs.user_state_dir("tfscale"))
    except RuntimeError:
        raise UsageError(
            "this user has no home folder, in which to keep state: set HOME or XDG_STATE_HOME, or give an agent "
            "--state-dir"
        ) from None


def has_state_folder(environment: Mapping[str, str]) -> bool:
    """Return whether this user can write the state folder, or make it."""
    try:
        folder = user_state_folder(environment)
    except UsageError:
        return False
    there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK)
