import math

import numpy as np
import pytest
from tfscale.console.analysis.steps.noise import difference, margin, quantile, spells, standard_error


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


def test_the_spells_of_noise_are_anybodys_but_the_present_one() -> None:
    levels = np.zeros((100, 3))
    levels[10:17, 0] = 1.0
    levels[40:44, 1] = 1.0
    levels[80:, 1] = 1.0
    levels[20:75, 2] = 1.0
    assert spells(levels, column=1, onset=80, threshold=0.5, ignore=50) == (7, 2, 5.5)
    assert spells(np.zeros((30, 2)), column=0, onset=10, threshold=0.5, ignore=50) == (0, 0, 0.0)


def test_a_spell_is_as_rare_as_it_says() -> None:
    """Spells of 8 blocks on average begin once in 50 blocks: how many in 100,000 blocks outlast the bound?"""
    random, at, levels = np.random.default_rng(3), 0, np.zeros((100_000, 1))
    while (at := at + 1 + int(random.exponential(50.0))) < len(levels):
        lasts = 1 + int(random.exponential(8.0))
        levels[at : at + lasts], at = 1.0, at + lasts
    bound = spells(levels[:5000], 0, 5000, 0.5, 10_000).as_rare(5000, 10 / len(levels))
    change = np.flatnonzero(np.diff(levels[:, 0]))
    assert 3 <= (np.diff(change)[::2] > bound).sum() <= 30


@pytest.mark.parametrize("share", [0.05, 0.15])
def test_the_bound_of_skewed_blocks_is_as_rare_as_it_says(share: float) -> None:
    """Blocks are 1 in so many of them, else 0: windows with several are more frequent than a normal distribution's."""
    blocks = (np.random.default_rng(1).random((400_000, 1)) < share).astype(float)
    bound = float(margin(blocks[:2000], 20, 0, 1e-3)[0])
    means = blocks.reshape(-1, 20).mean(axis=1) - share
    assert (means > bound).mean() < 2e-3


def test_subjects_differ_for_good_by_what_chance_does_not_explain() -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.04, (400, 40))
    error = float(standard_error(noise, 400, 0)[0].mean())
    assert difference(noise, error) < 0.003
    kinds = noise + np.where(np.arange(40) < 20, 0.0, 0.05)
    assert difference(kinds, error) == pytest.approx(0.025, abs=0.005)
