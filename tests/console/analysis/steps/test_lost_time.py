"""The cost of stragglers: the time of the steps over that without them, whatever part of the steps is slow."""

import numpy as np
import pytest
from tfscale.console.analysis.steps.lost_time import slowdown

TRANSFER = 0.02


def waiting(lag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (lag, reduce) of subjects that wait for the slowest."""
    return lag, TRANSFER + lag.max(axis=1, keepdims=True) - lag


def noisy(*ratios: float, noise: float = 0.1, count: int = 4000) -> np.ndarray:
    random = np.random.default_rng(3)
    return 0.1 * np.array(ratios) * np.exp(noise * random.normal(size=(count, len(ratios))))


def true_slowdown(slow: np.ndarray, equal: np.ndarray) -> float:
    return float((TRANSFER + slow.max(axis=1)).mean() / (TRANSFER + equal.max(axis=1)).mean())


def test_slowdown_is_the_step_over_the_step_without_the_culprit() -> None:
    lag, reduce = np.array([[0.030, 0.091], [0.031, 0.090]]), np.array([[0.100, 0.039], [0.099, 0.040]])
    assert slowdown(lag, reduce, [1]) == pytest.approx(0.130 / 0.070, rel=0.01)
    assert slowdown(lag, reduce, []) == 1.0


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("ratio", [1.1, 2.0])
def test_a_repaired_subject_has_the_noise_of_its_peers(workers: int, ratio: float) -> None:
    slow, equal = noisy(ratio, *[1.0] * (workers - 1)), noisy(*[1.0] * workers)
    assert slowdown(*waiting(slow), [0]) == pytest.approx(true_slowdown(slow, equal), rel=0.015)


@pytest.mark.parametrize("share", [0.25, 0.4])
def test_what_is_slow_in_some_of_the_steps_costs_its_share(share: float) -> None:
    equal = noisy(1.0, 1.0, 1.0, 1.0, noise=0.03)
    slow = equal.copy()
    slow[np.random.default_rng(1).random(len(slow)) < share, 2] *= 2
    assert slowdown(*waiting(slow), [2]) == pytest.approx(true_slowdown(slow, equal), rel=0.015)


def test_two_that_are_equally_slow_cost_what_both_cost_together() -> None:
    slow, equal = noisy(1.0, 1.3, 1.0, 1.3), noisy(1.0, 1.0, 1.0, 1.0)
    assert slowdown(*waiting(slow), [1, 3]) == pytest.approx(true_slowdown(slow, equal), rel=0.015)


def test_an_unknown_lag_stays_unknown_and_moves_nothing() -> None:
    lag, reduce = waiting(noisy(1.0, 2.0, 1.0, noise=0.02))
    whole = slowdown(lag, reduce, [1])
    lag[::7, 1], lag[::5, 0] = np.nan, np.nan
    known = ~np.isnan(lag).any(axis=1)
    assert slowdown(lag, reduce, [1]) == pytest.approx(whole, rel=0.15)
    assert slowdown(lag[known], reduce[known], [1]) == pytest.approx(whole, rel=0.01)
