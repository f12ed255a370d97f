import math

import numpy as np
import pytest
from tfscale.core.analysis.stragglers.noise import longest_spell, quantile, standard_error


@pytest.mark.parametrize(("chance", "freedom", "expected"), [(1e-5, 10, 7.53), (0.005, 5, 4.03), (0.025, 30, 2.04)])
def test_quantiles_are_those_of_students_t(chance: float, freedom: float, expected: float) -> None:
    assert quantile(chance, freedom) == pytest.approx(expected, rel=0.01)


def autoregression(memory: float, count: int, seed: int = 0) -> np.ndarray:
    random, values = np.random.default_rng(seed), [0.0]
    for shock in random.normal(size=count):
        values.append(memory * values[-1] + math.sqrt(1 - memory**2) * shock)
    return np.array(values[1:])


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.95])
def test_the_estimated_wander_is_that_of_the_medians_seen(memory: float) -> None:
    series = autoregression(memory, 24_000)
    seen = np.median(series.reshape(-1, 20), axis=1).std()
    estimates = [standard_error(part[:, None], 20, 0)[0][0] for part in series.reshape(-1, 400)]
    assert 0.9 < np.median(estimates) / seen < 2.0


def test_a_lasting_slowdown_is_not_taken_for_noise() -> None:
    series = 0.02 * autoregression(0.0, 120)[:, None]
    slowed = series + np.where(np.arange(120) >= 90, 1.0, 0.0)[:, None]
    assert standard_error(slowed, 20, 90)[0] == pytest.approx(standard_error(series, 20, 90)[0], rel=1e-6)


def test_the_longest_spell_is_anybodys_but_the_present_one() -> None:
    levels = np.zeros((100, 3))
    levels[10:17, 0] = 1.0
    levels[40:44, 1] = 1.0
    levels[80:, 1] = 1.0
    levels[20:75, 2] = 1.0
    assert longest_spell(levels, column=1, onset=80, threshold=0.5, ignore=50) == 7
    assert longest_spell(np.zeros((30, 2)), column=0, onset=10, threshold=0.5, ignore=50) == 0
