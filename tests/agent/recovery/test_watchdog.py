"""Times without a step, and which of them are hangs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tfscale.agent.recovery.watchdog import Watchdog
from tfscale.core.failure.hang_limits import BUSY, GAPS, SHORTEST
from tfscale.core.records.probe_status import ActivityKind

FIRST = (1, 1)


def looked(watchdog: Watchdog, ends: Iterable[float]) -> int:
    """Let the watchdog see a step at each of these times, and return their number."""
    steps = 0
    for steps, end in enumerate(ends, 1):
        assert watchdog.look(FIRST, steps, [], end) is None
    return steps


@pytest.mark.parametrize("step", [0.002, 1.0, 5.0])
def test_a_minute_without_a_step_is_a_hang(step: float) -> None:
    watchdog = Watchdog()
    steps = looked(watchdog, [number * step for number in range(50)])
    last = 49 * step
    assert watchdog.look(FIRST, steps, [], last + SHORTEST) is None
    assert watchdog.look(FIRST, steps, [], last + SHORTEST + 1) == pytest.approx(SHORTEST + 1)
    assert watchdog.look(FIRST, steps + 1, [], last + SHORTEST + 2) is None


def test_who_often_pauses_is_given_a_multiple_of_it() -> None:
    watchdog = Watchdog()
    steps = looked(watchdog, [30.0 * number for number in range(20)])
    assert watchdog.look(FIRST, steps, [], 570 + GAPS * 30) is None
    assert watchdog.look(FIRST, steps, [], 570 + GAPS * 30 + 1) is not None


def test_nothing_is_learnt_from_the_first_steps() -> None:
    watchdog = Watchdog()
    steps = looked(watchdog, [0.0, 40.0, 41.0, 42.0, 43.0, 44.0, 45.0])
    assert watchdog.look(FIRST, steps, [], 45.0 + SHORTEST + 1) is not None


def test_a_long_checkpoint_is_given_ten_minutes_and_idle_time_is_not() -> None:
    watchdog = Watchdog()
    steps = looked(watchdog, [float(number) for number in range(10)])
    assert watchdog.look(FIRST, steps, [ActivityKind.CHECKPOINT], 9 + BUSY) is None
    assert watchdog.look(FIRST, steps, [ActivityKind.CHECKPOINT], 9 + BUSY + 1) is not None
    assert watchdog.look(FIRST, steps, [ActivityKind.IDLE], 9 + SHORTEST + 1) is not None


def test_before_its_first_step_nobody_hangs() -> None:
    watchdog = Watchdog()
    assert [watchdog.look(FIRST, 0, [], at) for at in (0.0, 1000.0)] == [None, None]


def test_a_new_attempt_begins_anew() -> None:
    watchdog = Watchdog()
    looked(watchdog, [float(number) for number in range(10)])
    assert watchdog.look((2, 1), 0, [], 9 + SHORTEST + 1) is None
    assert watchdog.look((2, 1), 3, [], 200.0) is None
    assert watchdog.look((2, 1), 3, [], 200.0 + SHORTEST + 1) is not None
