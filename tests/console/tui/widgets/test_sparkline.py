"""Sparklines: their common scale, their colours, and values that are unknown."""

from __future__ import annotations

import numpy as np
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.charts.sparkline import PLAIN, lag_scale, sparklines


def test_all_rows_have_one_scale_and_noise_is_flat() -> None:
    scale = lag_scale([0.074, None, 0.0741, 0.0739, 0.106, 0.0742])
    assert scale is not None and scale == (0.0741, 0.0741 * 1.5)
    noisy = np.full(60, 0.0741, np.float32) * np.float32(1.05) ** (np.arange(60, dtype=np.float32) % 3 - 1)
    slow = np.concatenate([np.full(30, 0.074, np.float32), np.full(30, 0.106, np.float32)])
    slower = np.full(60, 0.3, np.float32)
    begun = np.concatenate([np.full(30, np.nan, np.float32), slow[30:]])
    flat, risen, longest, late = sparklines(np.stack([noisy, slow, slower, begun]), 8, scale, Appearance())
    assert flat == (("▁" * 8, PLAIN),)
    assert risen == (("▁▁▁▁", PLAIN), ("▇▇▇▇", 8))
    assert longest == (("█" * 8, 9),)
    assert late == (("    ", PLAIN), ("▇▇▇▇", 8))


def test_a_scale_reaches_the_longest_lag_and_is_unknown_without_one() -> None:
    assert lag_scale([0.1, 0.1, 0.5]) == (0.1, 0.5)
    assert lag_scale([None, None]) is None


def test_without_colours_the_signs_say_it_alone() -> None:
    values = np.array([[0.1, 0.15]], np.float32)
    ((text, colour),) = sparklines(values, 2, (0.1, 0.15), Appearance(glyphs=ASCII, letters=True))[0]
    assert (text, colour) == ("_#", PLAIN)
    assert sparklines(values, 0, (0.1, 0.15), Appearance()) == [()]
