"""The search over sizes, on machines whose speed and memory are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tfscale.trainer.batch.size_search import SizeRow, SizeSearch, with_head_room
from tfscale.trainer.compare.measured_run import MeasuredRun


def machine(step: Callable[[int], float], holds: int = 10**9, takes: int = 10**9) -> Callable[[int], SizeRow]:
    """Return the measurement of a machine: time of a step by size, largest sizes for its memory and its script."""

    def measure(size: int) -> SizeRow:
        reason = "out" if size > holds else "no such batch" if size > takes else ""
        return SizeRow(size, [MeasuredRun(str(size), 0, reason, size > holds, step=None if reason else step(size))])

    return measure


def constant(_size: int) -> float:
    return 1.0


def levelling(size: int) -> float:
    """Return a step with 10 ms beside those of the examples: from 136 on it has 95 % of the speed of 512."""
    return 0.01 + size * 0.001


@pytest.mark.parametrize(
    ("measure", "start", "most", "tried", "chosen"),
    [
        (machine(levelling), 32, None, [32, 64, 128, 160, 192, 256, 512], 160),
        (machine(levelling), 32, 100, [32, 48, 56, 64, 100], 64),
        (machine(levelling), 32, 32, [32], 32),
        (machine(constant, holds=100), 32, None, [32, 64, 80, 96, 112, 128], 96),
        (machine(constant, holds=20), 32, None, [16, 20, 24, 32], 20),
        (machine(constant, holds=0), 4, None, [1, 2, 4], None),
        (machine(constant, takes=100), 32, None, [32, 64, 80, 96, 112, 128], 96),
        (machine(constant, takes=10), 32, None, [32], None),
        (machine(lambda size: size * 0.001), 32, None, [32, 64, 128], 32),
        (machine(constant), 1, 3, [1, 2, 3], 3),
    ],
)
def test_the_smallest_size_that_is_fast_enough_is_chosen(
    measure: Callable[[int], SizeRow], start: int, most: int | None, tried: list[int], chosen: int | None
) -> None:
    search = SizeSearch(measure)
    search.run(start, most)
    assert [row.size for row in search.rows] == tried
    assert (search.chosen.size if search.chosen else None) == chosen


@pytest.mark.parametrize(
    ("size", "devices", "more"), [(32, 1, 36), (100, 1, 110), (48, 2, 54), (1, 4, 4), (101, 1, 112)]
)
def test_head_room_is_a_tenth_that_devices_can_share(size: int, devices: int, more: int) -> None:
    assert with_head_room(size, devices) == more
