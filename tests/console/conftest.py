"""The fakes of this folder are modules of its tests, which all run in the same terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from textual.widgets import Input

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the terminal, so that pictures depend neither on this machine nor on the time."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(Input, "cursor_blink", False)
    time.tzset()
