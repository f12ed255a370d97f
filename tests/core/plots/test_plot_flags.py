"""`--plot` of a command: read before anything runs, drawn in the end."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

import pytest
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.plots import plot_flags
from tfscale.core.plots.chart import CurveChart
from tfscale.core.plots.plot_flags import add_plot_flags, draw
from tfscale.core.settings.precedence import CommandLine


def read(*words: str) -> argparse.Namespace:
    parser = CommandLine(prog="tfscale-train scale")
    add_plot_flags(parser)
    return parser.parse_args(words)


def test_a_plot_goes_into_a_file_that_is_written_whole(curves: CurveChart, tmp_path: Path) -> None:
    flags = read("--plot", str(tmp_path / "a.SVG"), "--plot-theme", "dark")
    draw(curves, flags.plot, flags.plot_theme)
    assert "#14181d" in (tmp_path / "a.SVG").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["a.SVG"]


def test_standard_output_gets_characters_that_it_can_show(curves: CurveChart, monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, dot in (("utf-8", "●"), ("ascii", "o")):
        bytes_written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_written, encoding=encoding))
        draw(curves, read("--plot", "-").plot, "light")
        assert f"{dot} measured" in bytes_written.getvalue().decode(encoding)


def test_without_the_flag_nothing_is_drawn(curves: CurveChart, capsys: pytest.CaptureFixture[str]) -> None:
    draw(curves, read().plot, read().plot_theme)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("place", "said"), [("a.gif", "a plot is a file.png"), ("no/a.png", "no file can be made")])
def test_a_place_that_takes_no_plot_is_refused_at_once(place: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read("--plot", str(tmp_path / place))


@pytest.mark.parametrize(("place", "package"), [("a.png", "matplotlib"), ("-", "plotext")])
def test_without_the_extra_one_line_says_so_at_once(
    place: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plot_flags, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as found:
        read("--plot", place)
    assert f"{package} is not installed here: pip install 'tfscale[plots]'" in str(found.value)


def test_a_folder_that_has_gone_is_one_line(curves: CurveChart, tmp_path: Path) -> None:
    with pytest.raises(TfscaleError, match="No such file or directory"):
        draw(curves, str(tmp_path / "gone" / "a.png"), "light")
