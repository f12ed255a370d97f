"""Sparklines: their scale, and values that are unknown."""

from __future__ import annotations

import numpy as np
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.charts.sparkline import sparklines


def test_a_trend_goes_from_its_least_to_its_most_and_what_hardly_moves_is_flat() -> None:
    rising = np.linspace(1, 2, 60, dtype=np.float32)
    flat = np.full(60, 0.072, np.float32) * np.float32(1.001) ** np.arange(60, dtype=np.float32).clip(0, 3)
    begun = np.concatenate([np.full(30, np.nan, np.float32), rising[:30]])
    unknown, nothing = np.full(60, np.nan, np.float32), np.zeros(60, np.float32)
    drawn = sparklines(np.stack([rising, flat, begun, unknown, nothing]), 8, Appearance())
    assert drawn[0] == "▁▂▃▄▅▆▇█"
    assert set(drawn[1]) <= set("▄▅")
    assert drawn[2][:4] == "    " and drawn[2][4] == "▁" and drawn[2][-1] == "█"
    assert drawn[3] == " " * 8 and drawn[4] == "▁" * 8
    assert sparklines(rising[None], 8, Appearance(glyphs=ASCII))[0].isascii()
    assert (
        sparklines(rising[None], 0, Appearance()) == [""]
        and sparklines(np.empty((0, 60), np.float32), 8, Appearance()) == []
    )
