"""When agents tell their frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from tfscale.core.moments import MOMENTS, PERIOD, until_next

TIMES = st.floats(1.7e9, 1.9e9)
PLACES = st.integers(0, 5000)


@given(TIMES, PLACES)
def test_it_is_woken_at_its_moment_and_never_twice_in_half_a_period(now: float, place: int) -> None:
    wait = until_next(now, place)
    assert PERIOD / 2 <= wait <= 1.5 * PERIOD
    assert abs((now + wait) % PERIOD - place % MOMENTS / MOMENTS) in (approx(0, abs=1e-4), approx(PERIOD, abs=1e-4))


@given(TIMES, PLACES, st.floats(-0.4, 0.4))
def test_whoever_is_woken_early_or_late_goes_on_at_its_own_moments(now: float, place: int, late: float) -> None:
    moment = now + until_next(now, place)
    woken = moment + late
    assert woken + until_next(woken, place) == approx(moment + PERIOD, abs=1e-4)


def test_a_cluster_speaks_at_as_many_moments_as_there_are() -> None:
    spread = {round(until_next(1_800_000_000.0, place) % PERIOD, 6) for place in range(1000)}
    assert len(spread) == MOMENTS
