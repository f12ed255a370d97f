"""Charts as PNG and SVG."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tfscale.core.plots.chart import Axis, Chart, CurveChart, Interval, IntervalChart, Kind, Point, Series
from tfscale.core.plots.picture import THEMES, picture


@pytest.mark.parametrize("theme", THEMES)
def test_a_picture_has_all_words_of_its_chart_on_the_ground_of_its_theme(chart: Chart, theme: str) -> None:
    drawn = picture(chart, "svg", theme).decode()
    words = "".join(ElementTree.fromstring(drawn).itertext())
    expected = [chart.title, chart.x.label, *chart.notes]
    if isinstance(chart, CurveChart):
        expected += [each.name for each in chart.series] + [mark.name for mark in chart.marks] + [chart.y.label, "85%"]
    else:
        expected += [word for row in chart.rows for word in (row.name, row.words)]
    assert [word for word in expected if word not in words] == []
    assert THEMES[theme].ground in drawn
    assert all(other.ground not in drawn for name, other in THEMES.items() if name != theme)
    assert drawn == picture(chart, "svg", theme).decode()
    assert picture(chart, "png", theme).startswith(b"\x89PNG\r\n")


def test_names_with_dollars_and_unknown_characters_are_printed_as_they_are(recwarn: pytest.WarningsRecorder) -> None:
    rows = [Interval("batch=$x_1$ 漢", None, words="a run failed")]
    assert "batch=$x_1$ 漢" in picture(IntervalChart("$HOME", Axis("change", "%"), rows), "svg").decode()
    assert picture(IntervalChart("$HOME", Axis("change", "%"), rows), "png") and not list(recwarn)


def test_logarithmic_axes_have_the_chosen_ticks() -> None:
    points = [Point(x, 100 * x) for x in (1, 8, 64)]
    chart = CurveChart("t", Axis("workers", ticks=(1, 64), is_log=True), Axis("rate", is_log=True),
                       [Series("measured", Kind.MEASURED, points)])  # fmt: skip
    words = list(ElementTree.fromstring(picture(chart, "svg")).itertext())
    assert "64" in words and "8" not in words


@pytest.mark.parametrize("has_cache", [True, False])
def test_drawing_keeps_a_list_of_fonts_and_reads_no_settings(tmp_path: Path, has_cache: bool) -> None:
    (tmp_path / "matplotlibrc").write_text("this is: no setting\n")
    if not has_cache:
        (tmp_path / ".cache").write_text("a file is there")
    code = (
        "from tfscale.core.plots.chart import Axis, CurveChart; from tfscale.core.plots.picture import picture; "
        "picture(CurveChart('t', Axis('x', ticks=[1]), Axis('y'), []), 'png')"
    )
    unset = ("MPLCONFIGDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "MATPLOTLIBRC")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    (tmp_path / "tmp").mkdir()
    environment = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path / "tmp")}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "tmp",
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in ("matplotlibrc", ".cache")]
    fonts = tmp_path / ".cache/tfscale/matplotlib"
    assert [path.parent for path in kept] == ([fonts] if has_cache else [])
    assert kept == list(fonts.glob("fontlist-*.json")) and not list((tmp_path / "tmp").iterdir())
