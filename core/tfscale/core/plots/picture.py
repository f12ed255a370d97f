"""Charts as PNG and SVG, by matplotlib.

It is imported when a picture is drawn, without pyplot: no window system is asked for. Its list of fonts, which takes
seconds where there are many, is kept in `$XDG_CACHE_HOME/tfscale`, and no matplotlibrc is read. Colours are those of
Okabe and Ito, which all kinds of colour vision tell apart.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import platformdirs
from tfscale.core.plots.chart import Chart, CurveChart, IntervalChart, Kind, Series, tick_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES = (8.0, 4.8)
_ROW = 0.42
"""Inches of a row of intervals."""
_DPI = 150


@dataclass(frozen=True, slots=True)
class _Theme:
    ground: str
    text: str
    faint: str
    measured: str
    forecast: str


THEMES = {
    "light": _Theme("#ffffff", "#1a1a1a", "#8a8a8a", "#0072b2", "#d55e00"),
    "dark": _Theme("#14181d", "#e8e8e8", "#8f969e", "#56b4e9", "#e69f00"),
}


def picture(chart: Chart, form: str, theme: str = "light") -> bytes:
    """Return the chart as a picture; the same chart is the same bytes, by the same matplotlib.

    Args:
        chart: with texts that are printed as they are.
        form: `png` or `svg`.
        theme: `light` or `dark`.
    """
    with _matplotlib(THEMES[theme]):
        from matplotlib.figure import Figure

        rows = len(chart.rows) if isinstance(chart, IntervalChart) else 0
        height = 1.6 + _ROW * rows if rows else _INCHES[1]
        figure = Figure(figsize=(_INCHES[0], height + 0.2 * len(chart.notes)), dpi=_DPI, layout="constrained")
        axes = figure.add_subplot()
        if isinstance(chart, CurveChart):
            _curves(chart, axes, THEMES[theme])
        else:
            _intervals(chart, axes, THEMES[theme])
        _surround(chart, figure, axes)
        file = io.BytesIO()
        dated = {"Date": None} if form == "svg" else {}
        figure.savefig(file, format=form, metadata={"Title": chart.title, **dated})
        return file.getvalue()


@contextlib.contextmanager
def _matplotlib(theme: _Theme) -> Iterator[None]:
    """Import matplotlib with a cache of its own, and set its style for the block."""
    with contextlib.ExitStack() as stack:
        if "MPLCONFIGDIR" not in os.environ:
            folder = _cache() or stack.enter_context(tempfile.TemporaryDirectory(prefix="tfscale-plots-"))
            os.environ["MPLCONFIGDIR"] = folder
            stack.callback(os.environ.pop, "MPLCONFIGDIR")
        import matplotlib as mpl

        stack.enter_context(mpl.rc_context())
        # A name with characters that the font has not gets boxes, and no lines on stderr.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_style(theme))
        yield


def _cache() -> str | None:
    """Return the folder for matplotlib's list of fonts; None where this user has none to write to."""
    try:
        folder = platformdirs.user_cache_path("tfscale") / "matplotlib"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


def _style(theme: _Theme) -> dict[str, Any]:
    colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.text)
    grounds = dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), theme.ground)
    return {
        **colours,
        **grounds,
        "axes.edgecolor": theme.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text, which can be searched
        "svg.hashsalt": "tfscale",
        "text.parse_math": False,
    }


def _curves(chart: CurveChart, axes: Axes, theme: _Theme) -> None:
    for axis, scale in ((chart.x, axes.set_xscale), (chart.y, axes.set_yscale)):
        if axis.is_log:
            scale("log")
    for series in chart.series:
        _series(series, axes, theme)
    for mark in chart.marks:
        axes.axvline(mark.x, color=theme.faint, linewidth=1, linestyle=(0, (1, 3)), label=mark.name)
    axes.set_ylabel(chart.y.label)
    axes.set_xticks(chart.ticks, [tick_label(tick) for tick in chart.ticks])
    axes.minorticks_off()
    if chart.y.is_log:
        from matplotlib.ticker import LogLocator

        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.set_ylim(bottom=chart.floor)
    axes.yaxis.set_major_formatter(lambda value, _: tick_label(value))
    axes.grid(axis="y", color=theme.faint, alpha=0.25)
    for series in chart.series:
        _labels(series, axes)
    # Errorbars would come last: the legend has the order of the chart.
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [name for each in chart.series for name in (each.name, _band(each)) if name in handles]
    names += [mark.name for mark in chart.marks]
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
    axes.legend([handles[name] for name in names], names, **above, ncols=min(len(names), 3), fontsize=9)


def _band(series: Series) -> str:
    """Return the name of a series' band in the legend."""
    return f"band of the {series.name}"


def _series(series: Series, axes: Axes, theme: _Theme) -> None:
    x, y = [point.x for point in series.points], [point.y for point in series.points]
    lows, highs = zip(*(point.bounds for point in series.points), strict=True)
    if series.kind is Kind.REFERENCE:
        axes.plot(x, y, color=theme.faint, linestyle="--", linewidth=1, label=series.name)
        return
    colour = theme.measured if series.kind is Kind.MEASURED else theme.forecast
    if series.kind is Kind.MEASURED:
        below, above = ([abs(end - value) for end, value in zip(ends, y, strict=True)] for ends in (lows, highs))
        axes.errorbar(x, y, (below, above), color=colour, marker="o", capsize=4, linewidth=2, label=series.name)
    else:
        axes.fill_between(x, lows, highs, color=colour, alpha=0.2, linewidth=0, label=_band(series))
        axes.plot(x, y, color=colour, linestyle=(0, (4, 2)), linewidth=2)
        axes.plot(x[1:], y[1:], color=colour, marker="D", markerfacecolor=theme.ground, linestyle="", label=series.name)


def _labels(series: Series, axes: Axes) -> None:
    """Write the labels of points beside them: below the line, or above it where it falls or is near the axis."""
    _, floor = axes.transData.inverted().transform(axes.transAxes.transform((0, 0.1)))
    after = [*series.points[1:], None]
    # That with which a forecast begins was measured: it is not drawn twice.
    for point, following in list(zip(series.points, after, strict=True))[series.kind is Kind.FORECAST :]:
        is_above = (following is not None and following.y < point.y) or point.y < floor
        place: dict[str, Any] = {"xytext": (7, 5 if is_above else -13), "textcoords": "offset points"}
        if point.label:
            axes.annotate(point.label, (point.x, point.y), **place, fontsize=9, annotation_clip=False)


def _intervals(chart: IntervalChart, axes: Axes, theme: _Theme) -> None:
    if chart.margin:
        axes.axvspan(chart.base - chart.margin, chart.base + chart.margin, color=theme.faint, alpha=0.2, linewidth=0)
    axes.axvline(chart.base, color=theme.faint, linewidth=1, linestyle="--")
    for place, row in enumerate(chart.rows):
        ends = [end for end in (row.low, row.high) if end is not None]
        axes.plot(ends, [place] * len(ends), color=theme.measured, linewidth=2, marker="|", markersize=8)
        if row.value is not None:
            filled = theme.measured if row.is_decided else theme.ground
            axes.plot(row.value, place, "o", markersize=8, color=theme.measured, markerfacecolor=filled)
        outside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(row.words, (1, place), xycoords=("axes fraction", "data"), **outside, fontsize=9)
    axes.set_yticks(range(len(chart.rows)), [row.name for row in chart.rows])
    axes.set_ylim(len(chart.rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: tick_label(value))
    axes.grid(axis="x", color=theme.faint, alpha=0.25)


def _surround(chart: Chart, figure: Figure, axes: Axes) -> None:
    figure.suptitle(textwrap.fill(chart.title, 75), fontsize=12, fontweight="bold", x=0.01, ha="left")
    axes.set_xlabel(chart.x.label)
    if chart.notes:
        figure.supxlabel("\n".join(textwrap.fill(note, 125) for note in chart.notes), fontsize=8, x=0.01, ha="left")
