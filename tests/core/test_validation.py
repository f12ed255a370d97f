"""Values of agents that are refused."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace

import pytest
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.validation import check_counts, check_steps, is_moment

STEPS = StepBatch(1, 1, "chief:0", "worker:1/replica:0", [7, 8], array("d", [1.0, 2.0]), compute=array("f", [0.1, 0.2]))


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, 1e18, -1e300])
def test_what_no_clock_shows_is_no_moment(at: float) -> None:
    assert not is_moment(at)


@pytest.mark.parametrize("at", [0.0, -1.0, 1.8e9])
def test_what_a_clock_shows_is_one(at: float) -> None:
    assert is_moment(at)


def test_steps_with_columns_of_one_length_or_none_are_taken() -> None:
    check_steps(STEPS)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (replace(STEPS, subject="garbage"), "'garbage' is not a task"),
        (replace(STEPS, reporter=""), "'' is not a task"),
        (replace(STEPS, subject="cluster"), "only tasks"),
        (replace(STEPS, compute=array("f", [0.1])), "2 in all, 1 in column compute"),
        (replace(STEPS, sequence=[]), "0 in all, 2 in column end"),
    ],
)
def test_steps_that_cannot_be_read_are_refused_with_a_reason(steps: StepBatch, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_steps(steps)


def test_a_step_beyond_what_can_be_counted_is_refused() -> None:
    check_counts([0, 1 << 53])
    with pytest.raises(ValueError, match="beyond what can be counted"):
        check_counts([3, (1 << 53) + 1])
