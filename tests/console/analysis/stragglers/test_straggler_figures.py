"""Every number of a sentence about a straggler is measured over the same steps, also when the slowdown has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from phase_simulation import Noise, Simulation, frame
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_figures import straggler_figures
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.step_batch import PHASES

Make = Callable[[int], Diagnostician]
BEGIN, END, SECONDS = 20.0, 38.0, 70
TRANSFER = 0.01


def slow_for_a_while(seed: int, phase: str, ratio: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return ((k,) ends, (5, k, 4) phases, end of the slowdown) of a cluster with worker 1 slow from 20 to 38 s."""
    end, phases = Simulation(4, 10.0, float(SECONDS), Noise(0.05), seed=seed).steps()
    is_slow = (end >= BEGIN) & (end < END)
    lag = phases[:-1].sum(axis=0)
    phases[PHASES.index(phase), is_slow, 1] += (ratio - 1) * lag[is_slow, 1]
    own = phases[:-1].sum(axis=0)
    phases[-1] = TRANSFER + own.max(axis=1, keepdims=True) - own
    end = np.cumsum(phases.sum(axis=0)[:, 0])
    return end, phases, float(end[np.flatnonzero(is_slow)[-1]])


def reported(observer: Diagnostician, end: np.ndarray, phases: np.ndarray) -> Iterator[tuple[int, Diagnosis]]:
    """Yield (second, straggler) for each new sentence."""
    last = ""
    for second in range(1, SECONDS):
        low, high = (int(row) for row in np.searchsorted(end, [second - 1, second]))
        for worker in range(phases.shape[2]):
            observer.observe(f"worker:{worker}", frame(worker, float(second), end, phases, low, high))
        for each in observer.diagnose(float(second)).diagnoses:
            if each.kind == "straggler" and each.end is None and each.sentence != last:
                last = each.sentence
                yield second, each


@pytest.mark.parametrize("seed", [0, 1, 3, 7])
def test_ratio_excess_and_cost_agree_up_to_the_end_of_the_slowdown(diagnostician: Make, seed: int) -> None:
    end, phases, over = slow_for_a_while(seed, "compute", 1.51)
    usual = float(np.median(phases[:-1, :, 0].sum(axis=0)))
    told = list(reported(diagnostician(4), end, phases))
    assert all(second <= over + 5 for second, _ in told)
    for second, each in told:
        ratio, excess, slowdown = (float(each.evidence[name] or 0.0) for name in ("ratio", "excess", "slowdown"))
        assert each.evidence["phase"] == "compute", second
        assert excess == pytest.approx((ratio - 1) * usual, abs=0.1 * usual), second
        assert slowdown == pytest.approx((ratio * usual + TRANSFER) / (usual + TRANSFER), rel=0.2), second
        own, peers = map(_seconds, re.findall(r"([\d.]+) ms", each.sentence)[:2])
        assert own - peers == pytest.approx(excess, abs=0.0011), second


def test_the_share_in_the_cause_is_measured_over_the_steps_of_the_ratio(diagnostician: Make) -> None:
    end, phases, over = slow_for_a_while(0, "input", 1.6)
    usual = float(np.median(phases[:-1, :, 0].sum(axis=0)))
    told = list(reported(diagnostician(4), end, phases))
    assert all(second <= over + 5 for second, _ in told)
    for second, each in told:
        assert each.evidence["cause"] == "input"
        share, excess = float(each.evidence["input_share"] or 0.0), float(each.evidence["excess"] or 0.0)
        assert share == pytest.approx(excess / (usual + excess + TRANSFER), rel=0.1), second
        assert each.sentence.endswith(" Likely cause: its data come late.")


def _seconds(milliseconds: str) -> float:
    return float(milliseconds) / 1000


@pytest.mark.parametrize("seed", [0, 3])
def test_it_ends_within_seconds_is_told_by_what_it_was_and_not_named_again(diagnostician: Make, seed: int) -> None:
    end, phases, over = slow_for_a_while(seed, "input", 1.6)
    observer, told = diagnostician(4), []
    for second in range(1, SECONDS):
        low, high = (int(row) for row in np.searchsorted(end, [second - 1, second]))
        for worker in range(phases.shape[2]):
            observer.observe(f"worker:{worker}", frame(worker, float(second), end, phases, low, high))
        told += [(second, each) for each in observer.diagnose(float(second)).diagnoses]
    ((second, ended),) = ((at, each) for at, each in told if each.end is not None)
    assert second <= over + 5 and ended.end == pytest.approx(over, abs=1.0)
    factor = float(ended.evidence["phase_ratio"] or 0.0)
    assert ended.evidence["ratio"] == pytest.approx(1.6, rel=0.05) and factor == pytest.approx(9.6, rel=0.05)
    assert ended.sentence.startswith(f"worker:1 was {factor:.1f}x slower in input for ")
    assert "; normal since " in ended.sentence
    assert [each for at, each in told if at > second] == []
    usual = Simulation(4, 10.0, float(SECONDS), Noise(0.05), seed=seed).steps()[1][:-1].sum(axis=0)
    is_slow = (end > ended.begin) & (end <= over)
    without = (TRANSFER + usual.max(axis=1))[is_slow].mean()
    lost, cost = 1 - without / phases.sum(axis=0)[is_slow, 0].mean(), 1 - 1 / float(ended.evidence["slowdown"] or 0.0)
    assert cost == pytest.approx(lost, abs=0.03) and f"; the cluster lost {cost:.0%}" in ended.sentence


def test_the_figures_of_known_steps() -> None:
    lag = np.tile([0.1, 0.25, 0.1], (20, 1))
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, 0.3 - lag]).astype(np.float32)
    (figures,) = straggler_figures(AlignedSteps(("a", "b", "c"), np.arange(20), np.arange(20.0), phases), [1])
    assert (figures.phase, figures.measured_at) == ("compute", 19.0)
    assert (figures.ratio, figures.step) == (pytest.approx(2.5), pytest.approx(0.3))
    assert figures.excess["compute"] == pytest.approx(0.15)
    assert figures.slowdown == pytest.approx(2.0)
    assert figures.cost == pytest.approx(0.5)


def standing_still(seconds: float, culprit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ((k,) ends, (5, k, 3) phases): worker 1 takes 300 ms a step, and in step 100 `culprit` hangs for 36 s."""
    count = int(seconds / 0.3)
    phases = np.full((5, count, 3), 0.005)
    phases[PHASES.index("compute")] = [0.14, 0.3, 0.14]
    phases *= np.exp(0.02 * np.random.default_rng(0).normal(size=phases.shape))
    phases[PHASES.index("compute"), 100, culprit] += 36.0
    own = phases[:-1].sum(axis=0)
    phases[-1] = TRANSFER + own.max(axis=1, keepdims=True) - own
    return np.cumsum(phases.sum(axis=0)[:, 0]), phases


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_a_standstill_is_in_no_figure_of_a_slowness(diagnostician: Make, culprit: int) -> None:
    end, phases = standing_still(120.0, culprit)
    observer = diagnostician(3)
    told: list[Diagnosis] = []
    for second in range(1, 110):
        low, high = (int(row) for row in np.searchsorted(end, [second - 1, second]))
        for worker in range(3):
            observer.observe(f"worker:{worker}", frame(worker, float(second), end, phases, low, high))
        told += [each for each in observer.diagnose(float(second)).diagnoses if each.kind == "straggler"]
    assert any(each.end is None and each.evidence["noticed"] < 30 for each in told)
    assert any("has been slow" in each.sentence for each in told[-30:])
    for each in told:
        assert (each.subject, each.evidence["phase"]) == ("worker:1", "compute"), each.sentence
        assert each.evidence["cause"] in ("unknown", "device")
        assert each.number("ratio") == pytest.approx(0.315 / 0.155, rel=0.1), each.sentence
    stopped = next(each for each in told if each.end is not None)
    assert stopped.end == pytest.approx(float(end[99]), abs=1.0)
