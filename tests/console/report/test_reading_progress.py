"""Progress of reading: silent where it is quick."""

from __future__ import annotations

import io
from pathlib import Path

from tfscale.console.report.reading_progress import ReadingProgress


def read_in(seconds: float) -> str:
    """Return what is told while a file is read evenly in this time."""
    now, out = [100.0], io.StringIO()
    progress = ReadingProgress(Path("run.tfrec"), out, lambda: now[0])
    for percent in range(101):
        now[0] = 100.0 + seconds * percent / 100
        progress.show(percent / 100)
    return out.getvalue()


def test_a_short_recording_is_read_without_a_word() -> None:
    assert read_in(1.5) == read_in(3.0) == ""


def test_a_long_one_tells_how_much_and_how_long_and_not_too_often() -> None:
    lines = read_in(100.0).splitlines()
    assert lines[0] == "tfscale-console: run.tfrec: 2% read, 98 s left"
    assert len(lines) == 20
