"""Summaries of each subject's newest steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tfscale.console.analysis.steps.step_summary import known_median, steps_per_second, summaries
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.core.records.step_batch import StepBatch


def test_a_summary_has_the_medians_and_the_place_among_the_others(batch: Callable[..., StepBatch]) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 20, reduce=[0.03] * 20))
    table.add(batch("worker:1", 0, 20, compute=[0.03] * 20))
    window = table.aligned(("worker:0", "worker:1"))
    fast, slow = summaries(table, window, 20).values()
    assert (slow.step, slow.global_step) == (19, 19)
    assert (slow.compute, slow.lag, slow.step_time) == pytest.approx((0.03, 0.06, 0.07))
    assert (slow.wait, slow.ratio) == pytest.approx((0.0, 1.5))
    assert (fast.wait, fast.ratio) == pytest.approx((0.02, 0.04 / 0.06))


def test_a_subject_without_others_is_compared_with_none(batch: Callable[..., StepBatch]) -> None:
    table = StepTable()
    table.add(batch("worker:0", 0, 20, compute=[math.nan] * 20))
    (summary,) = summaries(table, table.aligned(("worker:0",)), 20).values()
    assert (summary.wait, summary.ratio, summary.compute, summary.lag) == (None,) * 4
    assert summary.step_time == pytest.approx(0.05)
    assert summaries(StepTable(), StepTable().aligned(()), 20) == {}


def test_a_rate_counts_the_unknown_ends_between_known_ones() -> None:
    assert steps_per_second(np.array([1.0, math.nan, 2.0, 2.5])) == pytest.approx(2.0)
    assert steps_per_second(np.array([math.nan, 1.0])) is None
    assert steps_per_second(np.array([1.0, 1.0])) is None


def test_a_median_of_nothing_known_is_unknown() -> None:
    assert known_median(np.array([math.nan, 3.0, math.inf, 1.0])) == 2.0
    assert known_median(np.array([math.nan])) is None
