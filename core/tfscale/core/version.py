"""Version of the installed tfscale."""

from __future__ import annotations

import importlib.metadata


def installed_version() -> str | None:
    """Return the version of tfscale, None in a tree that was not installed."""
    try:
        return importlib.metadata.version("tfscale")
    except importlib.metadata.PackageNotFoundError:
        return None


def version_line() -> str:
    """Return what `--version` prints."""
    return f"tfscale {installed_version() or '(not installed)'}"
