"""Rates of steps in blocks, and how two of them compare."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.restarts.step_rate import LEAST_BLOCKS, Change, RateHistory, StepRate
from tfscale.console.analysis.steps.arrays import Floats


def ends_of(step: float, seconds: float, noise: float = 0.0, seed: int = 0) -> Floats:
    steps = step * np.exp(noise * np.random.default_rng(seed).standard_normal(int(seconds / step) + 1))
    return np.cumsum(steps)


def rate_of(ends: Floats, chunk: int = 7, least: int = 1) -> StepRate | None:
    blocks = RateHistory()
    for first in range(0, len(ends), chunk):
        blocks.append(ends[first : first + chunk], least)
    return blocks.rate()


@pytest.mark.parametrize(("step", "chunk"), [(5.0, 1), (0.4, 2), (0.05, 20), (0.002, 500), (0.002, 3)])
def test_the_rate_is_that_of_steps_of_any_length_however_they_come(step: float, chunk: int) -> None:
    rate = rate_of(ends_of(step, 100.0, noise=0.02), chunk)
    assert rate is not None and rate.per_second == pytest.approx(1 / step, rel=0.01)


def test_nothing_is_known_of_fewer_than_ten_blocks() -> None:
    assert rate_of(ends_of(5.0, 49.0)) is None
    assert rate_of(ends_of(5.0, 60.0)) is not None


def test_it_is_of_the_newest_minute() -> None:
    slow, fast = ends_of(0.2, 100.0), 100.0 + ends_of(0.1, 61.0)
    rate = rate_of(np.concatenate([slow, fast]), 10)
    assert rate is not None and rate.per_second == pytest.approx(10.0, rel=0.01)
    assert len(rate.levels) <= 60


@pytest.mark.parametrize("pause", [20.0, 3600.0, -3600.0, -20.0])
def test_neither_a_pause_nor_a_clock_that_is_set_moves_it(pause: float) -> None:
    ends = ends_of(0.1, 60.0)
    ends[300:] += pause
    rate = rate_of(ends, 10)
    assert rate is not None and rate.per_second == pytest.approx(10.0, rel=0.01)


def test_a_block_of_workers_at_their_own_pace_has_a_step_of_each() -> None:
    first, second = ends_of(5.0, 200.0), 0.3 + ends_of(5.0, 200.0)
    rate = rate_of(np.sort(np.concatenate([first, second])), 1, least=2)
    assert rate is not None and rate.per_second == pytest.approx(0.4, rel=0.02)


def change(before: float, after: float, noise: float, seed: int = 0, steps: float = 0.1) -> Change:
    first = rate_of(ends_of(steps / before, 62.0, noise, seed), 10)
    second = rate_of(ends_of(steps / after, 32.0, noise, 1000 + seed), 10)
    assert first is not None and second is not None
    return Change.between(first, second)


@pytest.mark.parametrize("steps", [0.002, 0.1, 5.0])
def test_a_gain_is_measured_beyond_noise(steps: float) -> None:
    seconds = steps * 30
    before, after = (
        rate_of(ends_of(steps, max(62.0, seconds), 0.05), 10),
        rate_of(ends_of(steps / 1.3, 60.0, 0.05, 7), 10),
    )
    assert before is not None and after is not None
    found = Change.between(before, after)
    assert found.is_real and found.share == pytest.approx(0.3, abs=0.05)


def test_equal_rates_are_told_as_different_in_less_than_one_case_of_a_hundred() -> None:
    found = [change(1.0, 1.0, noise, seed).is_real for seed in range(100) for noise in (0.02, 0.3)]
    assert sum(found) <= 1
    assert not change(1.0, 1.02, 0.01).is_real, "a difference that nobody would notice is none"


def test_noise_hides_what_it_may_have_made() -> None:
    quiet, loud = change(1.0, 1.1, 0.05), change(1.0, 1.1, 0.05, steps=2.0)
    assert quiet.is_real and quiet.noise < loud.noise
    drift = np.repeat(np.random.default_rng(3).normal(0.0, 0.2, 12), 5)
    before, after = StepRate(drift[:40]), StepRate(drift[40:] - 0.1)
    assert Change.between(before, after).noise > 0.15 and len(drift) > LEAST_BLOCKS
