from collections.abc import Sequence

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch
from tfscale.core.records.diagnosis import Diagnosis

BEGIN = 60.0


def lags(workers: int, step: float, seconds: float, seed: int = 1) -> Floats:
    """Return (k, n) lags with 5 % of noise."""
    return 0.85 * step * np.exp(np.random.default_rng(seed).normal(0.0, 0.05, (round(seconds / step), workers)))


def watched(lag: Floats, step: float) -> list[tuple[float, list[Diagnosis]]]:
    """Return (time, stragglers) of each second; every step ends with its slowest worker."""
    end = np.cumsum(lag.max(axis=1) + 0.15 * step)
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, lag.max(axis=1, keepdims=True) - lag]).astype(np.float32)
    subjects, watch, told = tuple(f"worker:{column}" for column in range(lag.shape[1])), StragglerWatch(), []
    for second in range(1, int(end[-1]) + 1):
        low, high = np.searchsorted(end, [second - 300.0, second])
        steps = AlignedSteps(subjects, np.arange(low, high), end[low:high], phases[:, low:high])
        found = watch.diagnose(steps.after(watch.follow(subjects)), steps.since)
        told.append((float(second), [each for each in found if each.kind == "straggler"]))
    return told


def names(told: Sequence[tuple[float, list[Diagnosis]]]) -> set[str]:
    return {each.subject for _, found in told for each in found}


@pytest.mark.parametrize(
    ("workers", "step", "share", "within"),
    [(2, 0.1, 0.25, 25.0), (4, 0.02, 0.25, 12.0), (8, 0.2, 0.25, 16.0), (8, 0.2, 0.1, 40.0), (32, 0.5, 0.25, 40.0)],
)
def test_who_is_twice_as_slow_in_some_of_its_steps_is_named_and_the_name_ends(
    workers: int, step: float, share: float, within: float
) -> None:
    lag = lags(workers, step, 150.0)
    first, last = round(BEGIN / step), round(110.0 / step)
    slow = np.flatnonzero(np.random.default_rng(2).random(len(lag)) < share)
    slow = slow[(slow >= first) & (slow < last)]
    lag[slow, 1] *= 2 if share > 0.2 else 5
    end = np.cumsum(lag.max(axis=1) + 0.15 * step)
    told = watched(lag, step)
    assert names(told) == {"worker:1"}
    named = [at for at, found in told if found]
    assert end[first] < named[0] <= end[first] + within
    assert named[-1] <= end[last] + max(20.0, 80 * step)
    assert told[int(named[0]) - 1][1][0].begin == pytest.approx(end[first], abs=max(6.0, 15 * step))


@pytest.mark.parametrize("seed", range(4))
def test_rare_stalls_of_all_and_a_burst_of_one_name_nobody(seed: int) -> None:
    lag, random = lags(8, 0.1, 120.0, seed), np.random.default_rng(seed)
    lag[random.random(lag.shape) < 0.005] *= 3
    lag[700:720, seed] *= 1.6
    assert names(watched(lag, 0.1)) == set()


@pytest.mark.parametrize(("workers", "step"), [(2, 0.1), (4, 0.02), (8, 2.0)])
def test_slowness_that_moves_every_minute_or_thirty_steps_is_named_each_time(workers: int, step: float) -> None:
    turn = round(max(60.0, 30 * step) / step)
    lag = lags(workers, step, BEGIN)
    lag = np.concatenate([lag, lags(workers, step, 3 * turn * step, seed=3)])
    first = round(BEGIN / step)
    for index, worker in enumerate((0, 1, 0)):
        lag[first + index * turn : first + (index + 1) * turn, worker] *= 1.3
    end, told = np.cumsum(lag.max(axis=1) + 0.15 * step), watched(lag, step)
    for index, worker in enumerate((0, 1, 0)):
        begin, over = end[first + index * turn], end[min(len(end), first + (index + 1) * turn) - 1]
        assert f"worker:{worker}" in names([each for each in told if begin + 1 < each[0] < over])
