"""Numbers and names as people read them."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from tfscale.core.records.training import Training
from tfscale.core.text import bit_rate, bounded, clock, printable, progress_words, step_time


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


def test_how_far_a_training_is_names_only_what_is_known() -> None:
    at = time.mktime((2026, 1, 1, 18, 38, 0, 0, 0, -1))
    known = Training(epoch=2, epochs=10, epoch_step=120, epoch_steps=500, time_left=3720.0, between_epochs=4.0)
    words = "epoch 3 of 10, step 120 of 500, 22% done"
    assert progress_words(known, at) == f"{words}, 1 h 02 m left: done at about 19:40"
    first = replace(known, between_epochs=None)
    assert progress_words(first, at) == f"{words}, 1 h 02 m left: done at about 19:40, without the ends of epochs"
    later = replace(known, time_left=86400.0)
    assert progress_words(later, at).endswith("1 d 0 h left: done at about 2026-01-02 18:38")
    assert progress_words(replace(known, time_left=None), at) == words
    assert progress_words(replace(known, time_left=0.0), at) == "epoch 3 of 10, done", "stopped early"
    loop = Training(epoch_step=30, epoch_steps=60, time_left=5.0)
    assert progress_words(loop, at).startswith("step 30 of 60, 50% done, 5 s left: done at about 18:38")
    servers = Training(epoch=6, epochs=20, epoch_steps=100, time_left=52.0)
    assert progress_words(servers, at) == "epoch 7 of 20, 30% done, 52 s left: done at about 18:38", "whole epochs"
    assert progress_words(replace(known, epochs=None, time_left=None), at) == "epoch 3, step 120 of 500"
    assert progress_words(replace(known, epoch_steps=None, time_left=None), at) == "epoch 3 of 10, step 120"
    assert progress_words(Training(epoch_step=205, global_step=1205), at) == "step 1,205", "a loop without an end"
    assert progress_words(Training(), at) == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "–"), (-1e-12, "0 us"), (8.3e-4, "830 us"), (0.0724, "72.4 ms"), (1.25, "1.25 s")]
)
def test_the_time_of_a_step_has_three_digits_and_no_sign_before_nothing(seconds: float | None, words: str) -> None:
    assert step_time(seconds) == words
