"""Charts of a task beside its peers: line, band, marked moments and scale; the order in which they stand."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.peers import band_chart
from tfscale.console.tui.widgets.peers.band_chart import Curve, Moments
from tfscale.console.tui.widgets.peers.task_measures import Leaders

LETTERS = Appearance(glyphs=ASCII, letters=True)
LINE, BAND = np.array([1.0, 1.0, 4.0, np.nan]), np.array([[1.0] * 4, [1.5] * 4, [2.0, 2.0, 2.0, np.nan]])


def drawn(look: Appearance, band: bool = True, **moments: int) -> list[str]:
    curve = Curve(LINE, BAND if band else None)
    return [str(line) for line in band_chart.draw(curve, (0.0, 4.0), (5, 5), "#009e73", Moments(**moments), look)]


def test_the_line_is_above_the_band_and_marked_moments_are_behind_both() -> None:
    assert drawn(LETTERS) == ["   # ", "     ", " ... ", " ##. ", "     "]
    assert drawn(LETTERS, onset=2, cursor=0) == ["  !#|", "  ! |", " ...|", " ##.|", "  ! |"]
    assert drawn(LETTERS, band=False, cursor=7) == ["   # ", "     ", "     ", " ##  ", "     "]


def test_dots_join_a_jump_upright_and_the_cursor_is_shaded() -> None:
    curve = Curve(LINE, None)
    lines = band_chart.draw(curve, (0.0, 4.0), (4, 3), "#009e73", Moments(cursor=1), Appearance())
    assert [str(line) for line in lines] == ["  ⡏ ", "  ⡇ ", "⠉⠉⠁ "]
    assert [[line.plain[span.start : span.end] for span in line.spans if span.style.bgcolor] for line in lines] == [
        ["⡏"],
        ["⡇"],
        ["⠁"],
    ]


@pytest.mark.parametrize(
    ("values", "top", "scale"),
    [
        ([70e-3, 103e-3], None, (66.7e-3, 106.3e-3)),
        ([0.0, 3.0], None, (0.0, 3.0)),
        ([1410.0, 1410.0], None, (1339.5, 1480.5)),
        ([0.86], 1.0, (0.0, 1.0)),
        ([-2.0, 1.0], None, (-2.3, 1.3)),
        ([], None, (0.0, 1.0)),
    ],
)
def test_a_scale_begins_at_0_unless_all_values_are_near_each_other(
    values: list[float], top: float | None, scale: tuple[float, float]
) -> None:
    assert Curve(np.array([np.nan, *values]), None).scale(20, top) == pytest.approx(scale)


def test_what_differs_most_from_the_peers_leads_and_noise_changes_nothing() -> None:
    leaders = Leaders()
    peers = {"step_time": 0.13, "compute": 0.074, "input": 0.006, "gpu_clock": 1.4e9, "wait": 0.03}
    bands = {key: np.array([[0.98 * value] * 30, [value] * 30, [1.02 * value] * 30]) for key, value in peers.items()}

    def follow(**own: float) -> list[str]:
        leaders.follow({key: np.full(30, value) for key, value in {**peers, **own}.items()}, bands)
        return leaders.keys

    assert follow() == []
    assert follow(compute=0.104, wait=0.001, gpu_clock=0.9e9) == ["gpu_clock", "compute"]
    assert follow(compute=0.104, gpu_clock=1.1e9) == ["gpu_clock", "compute"], "it is not clearly less"
    assert follow(compute=0.104, gpu_clock=1.31e9) == ["compute", "gpu_clock"]
    assert follow(compute=0.104, input=0.009) == ["compute"], "3 ms of 130 ms are no reason"
