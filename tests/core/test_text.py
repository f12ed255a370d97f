"""Numbers and names as people read them."""

from __future__ import annotations

import math

import pytest
from tfscale.core.text import bit_rate, bounded, clock, printable


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


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a line, 日本語 – as it is", "a line, 日本語 – as it is"),
        ("\x1b[1;31mValueError\x1b[0m: no", "ValueError: no"),
        ("\x1b]0;a title\x07text\x1b[2J", "text"),
        ("one\ttwo\rthree\x00", "one two three "),
        ("cut off \x1b", "cut off "),
    ],
)
def test_only_what_can_be_printed_is_left(written: str, shown: str) -> None:
    assert printable(written) == shown


def test_a_long_text_is_cut_before_it_is_read() -> None:
    assert bounded("\x1b[31mred" * 1_000_000, 8) == "red..." and bounded("short", 8) == "short"
