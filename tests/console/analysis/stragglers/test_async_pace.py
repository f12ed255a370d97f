"""Figures of a worker at its own pace, and the share of the throughput that the slow ones cost."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.stragglers.async_pace import Pace, report, shortfall
from tfscale.console.analysis.stragglers.straggler_rule import Verdict


def test_a_worker_at_its_own_pace_is_described_by_the_steps_of_the_window_alone() -> None:
    """The rule has seen another ratio in its blocks."""
    columns = np.full((5, 20), 0.01)
    slow = columns + np.array([0.0, 0.0, 0.03, 0.0, 0.0])[:, None]
    paces = [Pace.of(np.arange(20.0), phases) for phases in (columns, slow, columns)]
    verdict = Verdict(column=1, length=40, ratio=9.0, begin=0.0)
    (reported,) = report(("worker:0", "worker:1", "worker:2"), [verdict], paces)
    assert reported.diagnosis.sentence.startswith("worker:1 has been slow since ")
    assert "waiting for data takes 40.0 ms, the others' 10.0 ms (4.0x). Nobody" in reported.diagnosis.sentence
    assert reported.figures.slowdown == pytest.approx((1 / 0.04 * 3) / (2 / 0.04 + 1 / 0.07))
    assert report(("worker:0", "worker:1"), [verdict], [paces[0], Pace.of(np.empty(0), np.empty((5, 0)))]) == []


def test_what_is_lost_is_what_the_slow_ones_do_not_make() -> None:
    lag = np.tile([0.1, 0.2, 0.1, 0.1], (20, 1))
    assert shortfall(lag, [1]) == pytest.approx(40 / 35)
    assert shortfall(lag, []) == 1.0
    assert shortfall(lag, [0]) == 1.0
    assert shortfall(lag[:, :1], [0]) == 1.0
