"""Flags of a command that draws a chart, and where the chart goes: into a file, or onto standard output."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from tfscale.core.errors import TfscaleError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.plots.chart import Chart

HERE = "-"
"""Place that stands for standard output."""
_FORMS = (".png", ".svg")
THEMES = ("light", "dark")


def add_plot_flags(parser: argparse._ActionsContainer) -> None:
    """Add `--plot` and `--plot-theme`; they need nothing that takes long to import."""
    parser.add_argument(
        "--plot",
        type=plot_place,
        metavar="FILE",
        help="draw it there: a name that ends in .png or .svg, or - for characters on standard output",
    )
    parser.add_argument("--plot-theme", choices=THEMES, default=THEMES[0], help=f"of that file; default {THEMES[0]}")


def plot_place(text: str) -> str:
    """Parse a place for a plot, where what draws it is installed. Raises ArgumentTypeError."""
    path, package = Path(text), "plotext" if text == HERE else "matplotlib"
    if text != HERE and path.suffix.lower() not in _FORMS:
        raise argparse.ArgumentTypeError(f"{text!r}: a plot is a file.png, a file.svg, or - for standard output")
    if text != HERE and (path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text}: no file can be made there")
    if find_spec(package) is None:
        raise argparse.ArgumentTypeError(f"{package} is not installed here: pip install 'tfscale[plots]'")
    return text


def draw(chart: Chart, place: str | None, theme: str) -> None:
    """Draw the chart at a place; nothing where none is given. Raises TfscaleError.

    Standard output gets ASCII where its encoding is not UTF-8.
    """
    if place is None:
        return
    try:
        if place == HERE:
            from tfscale.core.plots.terminal_plot import WIDTH, terminal_plot

            width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
            is_ascii = "utf" not in (sys.stdout.encoding or "").lower()
            print(terminal_plot(chart, width, is_ascii=is_ascii), flush=True)
        else:
            from tfscale.core.plots.picture import picture

            write_whole(Path(place), picture(chart, Path(place).suffix[1:].lower(), theme))
    except BrokenPipeError:
        raise
    except (OSError, ImportError) as error:
        raise TfscaleError(f"--plot {place}: {getattr(error, 'strerror', None) or error}") from None
