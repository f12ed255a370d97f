"""Which tfscale this is."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable


def installed_version() -> str | None:
    """The version of tfscale; None where it runs from a tree that was not installed."""
    read: Callable[[str], str] = importlib.metadata.version
    try:
        return read("tfscale")
    except importlib.metadata.PackageNotFoundError:
        return None
