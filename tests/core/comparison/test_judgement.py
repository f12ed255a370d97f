"""Verdicts on pairs and sets of runs, by hand and on noise that is known."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from tfscale.core.comparison.judgement import Verdict, judge_pairs, judge_sets
from tfscale.core.comparison.rounds import MOST, Rounds, order

BASE = [1.00, 1.01, 0.99]


def drawn(noise: float, change: float, count: int = 400) -> Counter[Verdict]:
    """Judge so many comparisons of runs with this noise, each until it is decided."""
    generator, found = np.random.default_rng(1), Counter[Verdict]()
    for _ in range(count):
        base, other = np.exp(generator.normal(0, noise, (2, MOST)))
        other *= 1 + change
        looks = (Rounds().judge(base[:made], other[:made], made == MOST) for made in range(1, MOST + 1))
        judged = [look.verdict for look in looks if look is not None]
        found[next((verdict for verdict in judged if verdict is not Verdict.UNDECIDED), Verdict.UNDECIDED)] += 1
    return found


def test_the_interval_of_pairs_is_that_of_the_textbook() -> None:
    stats = pytest.importorskip("scipy.stats")
    other = [1.10, 1.13, 1.06]
    found = judge_pairs(BASE, other)
    by_book = stats.ttest_rel(np.log(other), np.log(BASE)).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.expm1(by_book.low), math.expm1(by_book.high)))
    assert found.verdict is Verdict.SLOWER


def test_the_interval_of_sets_is_that_of_welch_with_whole_degrees() -> None:
    stats = pytest.importorskip("scipy.stats")
    other = [1.10, 1.13, 1.06, 1.1, 1.09]
    found = judge_sets(BASE, other)
    by_book = stats.ttest_ind(np.log(other), np.log(BASE), equal_var=False).confidence_interval(0.95)
    assert found.low <= math.expm1(by_book.low) and found.high >= math.expm1(by_book.high)
    assert (found.low, found.high) == pytest.approx((math.expm1(by_book.low), math.expm1(by_book.high)), abs=0.01)


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ([1.001, 1.011, 0.991], Verdict.WITHIN),
        ([1.20, 1.22, 1.19], Verdict.SLOWER),
        ([0.70, 0.71, 0.69], Verdict.FASTER),
        ([1.20, 0.90, 1.05], Verdict.UNDECIDED),
    ],
)
def test_each_verdict(other: list[float], verdict: Verdict) -> None:
    assert judge_pairs(BASE, other).verdict is verdict
    assert judge_sets(BASE, other).verdict in (verdict, Verdict.UNDECIDED)


@pytest.mark.parametrize("judge", [judge_pairs, judge_sets])
def test_a_single_run_decides_nothing(judge: type[object]) -> None:
    assert judge([1.0], [2.0]).verdict is Verdict.UNDECIDED  # type: ignore[call-arg, attr-defined]


def test_trimmed_intervals_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    base, other = np.exp(np.random.default_rng(3).standard_t(2, (2, 16)) / 50)
    ratios, found = np.log(other / base), judge_pairs(base, other)
    winsorized = np.asarray(stats.mstats.winsorize(ratios, (1 / 8, 1 / 8)))
    half = stats.t.ppf(0.975, 11) * winsorized.std(ddof=1) * (15 / (12 * 11)) ** 0.5
    mean = stats.trim_mean(ratios, 1 / 8)
    assert (found.low, found.high) == pytest.approx((math.expm1(mean - half), math.expm1(mean + half)))
    p = stats.ttest_ind(np.log(other), np.log(base), equal_var=False, trim=1 / 8).pvalue
    assert judge_sets(base, other, error=p * 0.97).low < 0 < judge_sets(base, other, error=p * 0.97).high


def test_one_disturbed_run_of_16_does_not_decide() -> None:
    base = [1.0 + 0.001 * number for number in range(16)]
    assert judge_pairs(base, [*(1.05 * time for time in base[:15]), 0.3]).verdict is Verdict.SLOWER


def test_runs_without_noise_are_decided() -> None:
    assert judge_pairs([1.0] * 3, [1.0] * 3).verdict is Verdict.WITHIN
    assert judge_sets([1.0] * 3, [1.1] * 3).verdict is Verdict.SLOWER


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.05])
def test_no_change_is_told_in_19_of_20_comparisons_of_one_program(noise: float) -> None:
    found = drawn(noise, 0.0)
    assert found[Verdict.SLOWER] + found[Verdict.FASTER] <= 0.05 * found.total()


def test_5_percent_are_found_in_9_of_10_where_runs_differ_by_3_percent() -> None:
    assert drawn(0.03, 0.05)[Verdict.SLOWER] >= 360


def test_a_change_as_large_as_the_visible_one_is_found_in_9_of_10() -> None:
    generator = np.random.default_rng(2)
    told = [judge_pairs(*np.exp(generator.normal(0, 0.05, (2, MOST)))).visible for _ in range(200)]
    found = 0
    for visible in told:
        base, other = np.exp(generator.normal(0, 0.05, (2, MOST)))
        found += judge_pairs(base, other * (1 + visible)).verdict is Verdict.SLOWER
    assert 0.8 <= found / len(told) <= 0.97


def test_what_all_rounds_find_is_said_before() -> None:
    for most in (3, 8, 16):
        generator, visible = np.random.default_rng(4), Rounds(most).visible(0.03)
        looks = (np.exp(generator.normal(0, 0.03, (2, most))) for _ in range(400))
        error = Rounds(most).looks[most]
        found = sum(judge_pairs(base, other * (1 + visible), error).verdict is Verdict.SLOWER for base, other in looks)
        assert 0.86 <= found / 400 <= 0.95, most


def test_the_rounds_that_a_change_needs_find_it() -> None:
    for change in (0.1, -0.1, 0.3):
        needed = Rounds().needed(0.05, change)
        assert needed is not None and Rounds(needed).visible(0.05) <= 1 / (1 - abs(change)) - 1
        assert needed == 3 or Rounds(needed - 1).visible(0.05) > abs(change)
    assert Rounds().needed(0.05, 0.0) == Rounds().needed(0.05, 0.03)
    assert Rounds().needed(0.5, 0.02) is None


def test_the_looks_share_one_error() -> None:
    for most in range(3, 12):
        assert sum(Rounds(most).looks.values()) == pytest.approx(0.05)
    assert list(Rounds().looks) == [3, 6, 10, 16]


def test_a_comparison_that_ends_early_is_judged_by_what_is_left() -> None:
    assert Rounds().judge(BASE[:2], [1.2, 1.21]) is None
    few = Rounds().judge([*BASE, 1.0], [1.05, 1.07, 1.03, 1.06], is_last=True)
    assert few is not None and few.verdict is Verdict.SLOWER


def test_rounds_turn_round() -> None:
    assert [order(3, number) for number in range(3)] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


def test_rounds_of_runs_that_differ_beyond_all_numbers_find_nothing() -> None:
    assert Rounds().visible(1e4) == math.inf
