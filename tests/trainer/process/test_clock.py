"""The wall clock, compared with the monotonic one."""

import numpy as np
import pytest
from tfscale.trainer.probe.process.clock import ClockWatch, on_new_clock


def test_a_clock_that_was_set_is_seen_once() -> None:
    offset = [1000.0]
    steady = iter(range(1, 1000))
    now = [0.0]

    def tick() -> float:
        now[0] = float(next(steady))
        return now[0]

    watch = ClockWatch(wall=lambda: now[0] + 0.5 + offset[0], steady=tick)
    assert watch.moved() == 0
    offset[0] += 0.002
    assert watch.moved() == pytest.approx(0.002)
    assert watch.moved() == 0


def test_slewing_is_no_jump() -> None:
    watch = ClockWatch()
    assert not any(watch.moved() for _ in range(50))


@pytest.mark.parametrize("by", [-3600.0, 3600.0, -2.0])
def test_times_of_the_clock_before_are_brought_to_the_new_one(by: float) -> None:
    now = 10_000.0
    stamped = np.array([now - 0.9 - by, now - 0.5 - by, now - 0.1])
    assert on_new_clock(stamped, by, now) == pytest.approx([now - 0.9, now - 0.5, now - 0.1])
