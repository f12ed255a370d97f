"""The network's time in the steps of each second."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.history.transfer_series import TransferSeries


def add(series: TransferSeries, first: int, reduce: list[float], end: float) -> None:
    count = len(reduce)
    series.add(np.arange(first, first + count), np.full(count, end), np.array(reduce, np.float32))


def test_a_steps_transfer_is_the_shortest_time_of_a_task_also_of_one_that_reports_late() -> None:
    series = TransferSeries()
    add(series, 0, [0.25, 0.5], 10.25)
    assert series.series(12, 3) == pytest.approx([np.nan, 0.375, np.nan], nan_ok=True)
    add(series, 2, [0.5] * 1000, 12.5)
    add(series, 0, [0.5, 0.25], 10.5)
    assert series.series(12, 2) == pytest.approx([0.25, np.nan], nan_ok=True)


def test_cleared_it_keeps_the_means_and_counts_anew() -> None:
    series = TransferSeries()
    add(series, 0, [0.5], 10.0)
    series.clear()
    add(series, 0, [0.75], 11.0)
    assert series.series(12, 2).tolist() == [0.5, 0.75]
    series.forget(11)
    assert series.series(12, 2) == pytest.approx([np.nan, 0.75], nan_ok=True)


def test_steps_too_old_or_without_a_known_end_do_not_count() -> None:
    series = TransferSeries()
    add(series, 100_000, [0.5], 10.0)
    add(series, 0, [0.25], 10.0)
    add(series, 100_001, [0.25], np.nan)
    assert series.series(11, 1).tolist() == [0.5]
