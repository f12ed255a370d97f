"""The tour through the console in a real terminal, at the smallest usual size and at a larger one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "scripts" / "tour"


@pytest.mark.matrix
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here to draw in")
@pytest.mark.parametrize("size", ["80x24", "120x40"])
def test_the_tour_finds_everything_where_it_should_be(tmp_path: Path, size: str) -> None:
    command = [sys.executable, TOUR, "--out", tmp_path, "--size", size]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
