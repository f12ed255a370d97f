"""Shares of the newest minute."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.run.goodput import Goodput
from tfscale.console.analysis.run.time_shares import TimeShares
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.core.records.probe_status import Activity, ActivityKind


def _run(seconds: int, compiles_until: int, host: float = 0.0) -> tuple[TimeShares, Goodput]:
    """Make a step of 0.5 s in each second; the other half is compilation at first, and nothing later."""
    goodput, shares = Goodput(), TimeShares()
    goodput.note_start(0.0)
    for second in range(seconds):
        if second < compiles_until:
            goodput.note_activities("worker:0", [Activity(ActivityKind.COMPILE, second, second + 0.5)])
        phases = np.array([0.0, host, 0.0, 0.5 - host, 0.0], np.float32).reshape(5, 1, 1)
        goodput.add_steps(
            (1, 1), AlignedSteps(("worker:0",), np.array([second]), np.array([second + 1.0]), phases), second
        )
        shares.sample(goodput)
    return shares, goodput


def test_compiling_between_all_steps_is_half_of_the_time() -> None:
    shares, _ = _run(40, 40)
    assert shares.since(40.0)["compile"] == pytest.approx(0.5, abs=0.02)
    assert sum(shares.since(40.0).values()) == pytest.approx(1.0)


def test_what_was_over_a_minute_ago_does_not_count() -> None:
    shares, _ = _run(200, 100)
    assert shares.since(200.0)["compile"] == 0.0
    assert shares.since(200.0)["python"] == pytest.approx(0.5, abs=0.02)


def test_python_is_what_holds_up_the_steps_and_what_lies_between_them() -> None:
    shares, _ = _run(40, 0, host=0.4)
    assert shares.since(40.0)["python"] == pytest.approx(0.9, abs=0.02)


def test_too_little_and_too_old_are_not_told() -> None:
    assert _run(15, 15)[0].since(15.0) == {}
    assert _run(40, 40)[0].since(100.0) == {}


def test_all_time_is_in_a_bucket_whatever_the_gaps() -> None:
    for gap in (0.0, 0.001, 0.019, 0.021, 0.5):
        goodput = Goodput()
        goodput.note_start(10.0)
        end = 10.0 + (0.1 + gap) * np.arange(1, 101)
        phases = np.zeros((5, 100, 1), np.float32)
        phases[3] = 0.1
        goodput.add_steps((1, 1), AlignedSteps(("worker:0",), np.arange(100), end, phases), 99)
        assert sum(goodput.spent(float(end[-1])).values()) == pytest.approx(float(end[-1]) - 10.0, rel=0.01)
