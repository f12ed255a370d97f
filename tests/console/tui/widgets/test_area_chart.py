"""Areas over time, and the curve of throughput over workers."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.run.scaling import ring_forecast
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.charts import area_chart, scaling_chart

LETTERS = Appearance(glyphs=ASCII, letters=True)


def area(letter: str, *values: float, colour: str = "#009e73") -> area_chart.Area:
    return area_chart.Area(colour, letter, np.array(values))


def plain(lines: list[object]) -> list[str]:
    return [str(line) for line in lines]


def test_columns_are_cut_by_the_clock_so_that_they_stay() -> None:
    at, values = np.arange(103, 109), np.array([1.0, 2.0, 3.0, np.nan, np.nan, np.nan])
    assert area_chart.columns(values, at, 2) == pytest.approx([1.0, 2.5, np.nan, np.nan], nan_ok=True)
    later = area_chart.columns(values[1:], at[1:], 2)
    assert later[0] == 2.5, "what was a column before is the same column a second later"


def test_areas_are_stacked_newest_on_the_right() -> None:
    lines = plain(area_chart.draw([area("c", 1.0, 2.0), area("w", 2.0, np.nan)], 4.0, 4, 4, LETTERS))
    assert lines == ["    ", "  w ", "  wc", "  cc"]


def test_colours_go_to_an_eighth_of_a_cell_and_what_is_there_is_seen() -> None:
    lines = area_chart.draw([area("c", 0.5, 0.001, 0.0)], 1.0, 3, 1, Appearance())
    assert plain(lines) == ["▄▁ "]
    both = area_chart.draw(
        [area("c", 0.25, colour="#111111"), area("w", 0.75, colour="#222222")], 1.0, 1, 1, Appearance()
    )[0]
    assert both.plain == "▂"
    drawn = both.spans[0].style
    assert drawn.color.name == "#111111" and drawn.bgcolor.name == "#222222"


def test_more_than_full_is_full() -> None:
    assert plain(area_chart.draw([area("c", 9.0)], 1.0, 1, 2, LETTERS)) == ["c", "c"]


@pytest.mark.parametrize("appearance", [Appearance(), LETTERS])
def test_the_curve_lies_below_the_ideal_line_and_fills_its_room(appearance: Appearance) -> None:
    lines = scaling_chart.draw(lambda size: ring_forecast(0.1, 0.05, 4, size), 4, 8, 60, 12, appearance)
    assert len(lines) == 12 and all(len(line.plain) <= 60 for line in lines)
    text = "\n".join(plain(lines))
    assert "8x" in text and "4 now" in text and appearance.glyphs.running in text
    top = lines[0].plain[6:]
    assert top.strip() and not any(span.style == appearance.palette.parts["transfer"] for span in lines[0].spans)
    if appearance is LETTERS:
        assert text.isascii() and top.rstrip().endswith(".")
