"""Counters of a task: they never go back, whatever its processes count anew."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tfscale.core.metrics.task_totals import CollectiveTotals, StepTotals
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Collective
from tfscale.core.records.task_status import TaskState, TaskStatus


def frame(counts: tuple[int, int] | None, attempt: int = 1, state: TaskState = TaskState.RUNNING) -> Frame:
    collective = None if counts is None else Collective(*counts)
    return Frame(0, 0.0, TaskStatus(state, 1, attempt), collective=collective)


def totals(*frames: Frame) -> list[tuple[int, int] | None]:
    sums, said = CollectiveTotals(), []
    for each in frames:
        sums.note(each)
        said.append(sums.counts)
    return said


def test_who_comes_late_begins_at_zero_and_keeps_who_is_inside() -> None:
    assert totals(frame(None), frame((501, 500)), frame((502, 502))) == [None, (1, 0), (2, 2)]


def test_a_task_that_starts_later_is_counted_from_its_first_collective() -> None:
    assert totals(frame(None, 0, TaskState.PENDING), frame(None), frame((3, 3))) == [None, None, (3, 3)]


@pytest.mark.parametrize("attempt", [1, 2])
def test_another_process_goes_on_where_the_last_one_ended(attempt: int) -> None:
    said = totals(frame(None, 0, TaskState.PENDING), frame((10, 9)), frame((2, 2), attempt), frame((2, 2), attempt))
    assert said[1:] == [(10, 9), (12, 12), (12, 12)]


def test_a_new_attempt_of_which_nothing_is_known_has_left_the_collective_of_the_last() -> None:
    said = totals(frame(None, 0, TaskState.PENDING), frame((10, 9)), frame(None, 2), frame((11, 11), 2))
    assert said[1:] == [(10, 9), (10, 10), (21, 21)]
    known = [each for each in said if each is not None]
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(known))


def test_an_unknown_phase_stays_unknown_until_a_step_has_it() -> None:
    sums = StepTotals().plus(2, 1, (0.5, None, None, 1.0, None)).plus(1, 0, (0.25, None, 0.125, None, None))
    assert sums == StepTotals(3, 1, (0.75, None, 0.125, 1.0, None))
