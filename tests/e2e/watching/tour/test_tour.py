"""The tour through the console in a real terminal, at the smallest usual size."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from watching.tour.browser_tour import browse
from watching.tour.console_legs import LEGS, Leg
from watching.tour.console_tour import drive

pytestmark = pytest.mark.alone


RARELY = ("read-only", "plain", "views", "cut", "stages")
"""Legs that go where others go, too."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here to draw in")
@pytest.mark.parametrize(
    "leg",
    [pytest.param(leg, marks=pytest.mark.matrix if leg.name in RARELY else (), id=leg.name) for leg in LEGS],
)
def test_every_stop_shows_what_it_should(tmp_path: Path, leg: Leg) -> None:
    drive(leg, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("PySide6") is None, reason="no PySide6 here, which brings a Chromium")
def test_a_browser_goes_the_same_way_by_keys_and_clicks(tmp_path: Path) -> None:
    browse(tmp_path, tmp_path)
