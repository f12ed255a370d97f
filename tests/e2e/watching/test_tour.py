"""The tour through the console in a real terminal, at the smallest usual size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from watching.console_tour import LEGS, Leg, drive

pytestmark = pytest.mark.alone


RARELY = ("read-only", "plain", "views", "cut")
"""Legs that go where others go, too."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here to draw in")
@pytest.mark.parametrize(
    "leg",
    [pytest.param(leg, marks=pytest.mark.matrix if leg.name in RARELY else (), id=leg.name) for leg in LEGS],
)
def test_every_stop_shows_what_it_should(tmp_path: Path, leg: Leg) -> None:
    drive(leg, tmp_path)
