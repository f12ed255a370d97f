"""Times at which agents send their frames."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from tfscale.core.report_schedule import AGENTS_PER_SLOT, PERIOD, SLOTS, until_next

TIMES = st.floats(1.7e9, 1.9e9)
PLACES = st.integers(0, 5000)


@given(TIMES, PLACES)
def test_it_is_woken_at_its_moment_and_never_twice_in_half_a_period(now: float, place: int) -> None:
    wait = until_next(now, place)
    assert PERIOD / 2 <= wait <= 1.5 * PERIOD
    moment = place // AGENTS_PER_SLOT % SLOTS / SLOTS
    assert abs((now + wait) % PERIOD - moment) in (approx(0, abs=1e-4), approx(PERIOD, abs=1e-4))


@given(TIMES, PLACES, st.floats(-0.4, 0.4))
def test_whoever_is_woken_early_or_late_goes_on_at_its_own_moments(now: float, place: int, late: float) -> None:
    moment = now + until_next(now, place)
    woken = moment + late
    assert woken + until_next(woken, place) == approx(moment + PERIOD, abs=1e-4)


@given(TIMES)
def test_those_of_a_small_cluster_all_tell_at_once(now: float) -> None:
    assert len({until_next(now, place) for place in range(AGENTS_PER_SLOT)}) == 1


def test_those_of_a_large_cluster_share_all_moments_alike() -> None:
    told = Counter(round(until_next(1_800_000_000.0, place) % PERIOD, 6) for place in range(1000))
    assert list(told.values()) == [AGENTS_PER_SLOT] * SLOTS
