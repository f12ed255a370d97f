"""Numbers and names as people read them."""

from __future__ import annotations

import math

import pytest
from tfscale.core.text import bit_rate, clock


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e300])
def test_what_is_no_moment_has_no_time_of_day(at: float) -> None:
    assert clock(at) == "--:--:--"


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (999.4e6, "999 Mbit/s"),
        (999.9e6, "1 Gbit/s"),
        (57.2e6, "57.2 Mbit/s"),
        (800.0, "800 bit/s"),
        (999.9, "1 kbit/s"),
    ],
)
def test_a_speed_is_never_written_with_an_exponent(bits: float, text: str) -> None:
    assert bit_rate(bits) == text
