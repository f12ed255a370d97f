"""Fixture of the tests of this folder: they all run in the same terminal."""

from __future__ import annotations

import time

import pytest
from textual.widgets import Input


@pytest.fixture(autouse=True)
def _same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the terminal, so that pictures depend neither on this machine nor on the time."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(Input, "cursor_blink", False)
    time.tzset()
