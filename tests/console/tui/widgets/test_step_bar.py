"""Bars of steps: their width, and lengths in proportion to the steps."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.tui.widgets.appearance.theme import PALETTES, PARTS, Appearance
from tfscale.console.tui.widgets.charts.step_bar import mean_parts, parts_of, phase_bar


@pytest.mark.parametrize("width", [1, 7, 13, 24, 72])
@pytest.mark.parametrize("letters", [False, True])
def test_a_bar_is_as_wide_as_it_should_be_and_as_long_as_its_step(width: int, letters: bool) -> None:
    cluster = fakes.spec(2)
    appearance, background = Appearance(letters=letters), PALETTES["tfscale-dark"].background
    for scale in (0.066, 0.13, 0.5):
        parts = parts_of(fakes.summaries(cluster)["worker:0"])
        segments = phase_bar(parts, scale, width, appearance, background)
        assert sum(len(segment.text) for segment in segments) == width
        empty = sum(len(segment.text) for segment in segments if not segment.text.strip() and _is(segment, background))
        assert empty == pytest.approx(width * (1 - 0.065 / scale), abs=1.01)
    assert len(phase_bar({}, 1.0, width, appearance, background)) == 1


def _is(segment: object, background: str) -> bool:
    style = getattr(segment, "style", None)
    return style is not None and style.bgcolor is not None and style.bgcolor.name == background


def test_the_bar_of_a_group_is_the_mean_of_those_that_are_known() -> None:
    found = fakes.summaries(fakes.spec(2), fakes.worker(1))
    parts = mean_parts([*found.values(), None])
    assert list(parts) == list(PARTS)
    assert parts["compute"] == pytest.approx(0.07) and mean_parts([None]) == {}
