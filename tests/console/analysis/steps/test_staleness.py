"""Staleness of asynchronous updates, counted between pull and push."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.steps.staleness import LONGEST, Staleness, Updates, staleness


def worker(own: float, pause: float, seconds: float = 60.0, offset: float = 0.0) -> Updates:
    """Return the updates of a worker that computes for `own` seconds after each pull, and pushes then."""
    pulled = offset + np.arange(0.0, seconds, own + pause)
    return Updates(pulled, pulled + own)


def test_each_update_by_another_worker_between_pull_and_push_is_counted() -> None:
    slow = Updates(np.array([0.5, 2.0, 4.5]), np.array([1.9, 4.4, 9.0]))
    quick = Updates(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.9, 1.8, 2.9, 3.9, 4.9, 9.5]))
    # The slow worker's first pull comes before all have reported; the quick one's last push after the slow one's.
    assert staleness([slow, quick]) == [Staleness(1.5, {1: 1, 2: 1}), Staleness(1 / 3, {0: 2, 1: 1})]


@pytest.mark.parametrize("times", [1, 3, 8])
def test_the_mean_is_the_ratio_of_the_rates(times: int) -> None:
    slow, quick = staleness([worker(0.1 * times, 0.0), worker(0.1, 0.0, offset=0.03)])
    assert slow is not None and slow.mean == pytest.approx(times, rel=0.05)
    assert quick is not None and quick.mean == pytest.approx(1 / times, rel=0.1)


def test_a_worker_among_n_equal_ones_is_n_less_one_old() -> None:
    told = staleness([worker(0.1, 0.0, offset=0.013 * each) for each in range(5)])
    assert all(each is not None and each.mean == pytest.approx(4, abs=0.1) for each in told)


def test_a_worker_that_pulls_late_is_the_less_old() -> None:
    (told, _) = staleness([worker(0.1, 0.3), worker(0.05, 0.0, offset=0.013)])
    assert told is not None and told.mean == pytest.approx(2, abs=0.1)


def test_the_push_of_a_step_is_the_update_of_the_next_one() -> None:
    end = np.array([1.0, 2.0, 3.0])
    phases = np.array([[np.nan, 0.25, 0.125], [0.1] * 3, [0.1] * 3, [0.5, 0.5, 0.5], [np.nan] * 3])
    updates = Updates.of(end, phases)
    assert updates.pulled.tolist() == [0.5, 1.5] and updates.applied.tolist() == [1.25, 2.125]


def test_steps_that_are_known_as_a_whole_only_have_none() -> None:
    end, phases = np.arange(5.0), np.full((5, 5), np.nan)
    assert staleness([Updates.of(end, phases), worker(0.1, 0.0)]) == [None, None]
    assert staleness([worker(0.1, 0.0)]) == [None]


def test_very_old_updates_are_counted_together() -> None:
    told, _ = staleness([worker(10.0, 0.0), worker(0.1, 0.0, offset=0.03)])
    assert told is not None and list(told.updates) == [LONGEST] and told.mean == pytest.approx(100, abs=1)
