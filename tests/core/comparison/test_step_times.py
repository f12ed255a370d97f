"""Times of steps, with what lies between them."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.core.comparison.step_times import settled, step_times


def test_idle_time_is_in_a_step_and_what_is_apart_is_not() -> None:
    ends = [10.0, 11.0, 15.0, 16.0, 17.0]
    assert step_times(ends, []) == pytest.approx([1, 4, 1, 1])
    assert step_times(ends, [(11.5, 14.0), (15.5, 16.25)]) == pytest.approx([1, 1.5, 0.5, 0.75])


def test_what_lasts_over_several_steps_leaves_times_above_0() -> None:
    assert (step_times([1.0, 2.0, 3.0], [(0.0, 5.0), (0.0, 5.0)]) > 0).all()


def test_the_first_tenth_is_left_out() -> None:
    assert settled(np.arange(25)).tolist() == list(range(2, 25))
