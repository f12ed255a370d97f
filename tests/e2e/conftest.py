"""Fixture of tests that give programs a temporary folder of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a folder with a path that leaves room for those of sockets: `tmp_path` is longer in a worker of xdist."""
    with tempfile.TemporaryDirectory(prefix="tfscale-test-") as name:
        yield Path(name)
