"""A training that was faster a minute ago."""

from __future__ import annotations

from tfscale.console.analysis.run.pace_drop import PaceDrop


def drops(*rates: float) -> list[float | None]:
    memory = PaceDrop()
    return [memory.since_a_minute(float(second), rate) for second, rate in enumerate(rates)]


def test_a_run_that_was_twice_as_fast_a_minute_ago_has_dropped_until_that_is_a_minute_ago() -> None:
    found = drops(*[10.0] * 60, *[5.0] * 90)
    assert not any(found[:64]) and found[70] == found[100] == 2.0 and not any(found[-10:])


def test_a_second_that_is_slow_and_a_run_that_is_a_third_slower_have_not_dropped() -> None:
    assert not any(drops(*[10.0] * 60, *[2.0] * 4, *[10.0] * 60))
    assert not any(drops(*[10.0] * 60, *[7.0] * 60))
