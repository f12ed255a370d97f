"""Steps whose gradients are not finite, from what checks in graphs have found."""

from __future__ import annotations

import math

from tfscale.core.records.training import Gradients
from tfscale.trainer.probe.steps.gradient_watch import GradientWatch, NonFinite
from tfscale.trainer.probe.steps.step import Step


def steps(first: int, count: int) -> list[Step]:
    """Return steps that end at each full second; the optimizer counts from 101."""
    numbers = range(first, first + count)
    return [Step(number, number + 1.0, 0, 0, 0, 0, 0, global_step=number + 101) for number in numbers]


def test_a_step_is_named_with_its_first_variable_and_its_replicas() -> None:
    watch = GradientWatch()
    watch.update([], steps(0, 3), 3, 3.5)
    assert watch.newest == Gradients()
    watch.update([NonFinite(4.7, 1, 2, 8, "dense/kernel")], steps(3, 2), 5, 5.5)
    assert watch.newest == Gradients(1, 4.7, 4, 105, (1,), 2, 8, "dense/kernel")
    later = [NonFinite(at + 0.5, replica, 8, 8) for at in range(5, 8) for replica in (0, 1)]
    watch.update(later, steps(5, 3), 8, 8.5)
    assert watch.newest == Gradients(4, 4.7, 4, 105, (1,), 2, 8, "dense/kernel")


def test_replicas_of_one_step_are_told_together() -> None:
    watch = GradientWatch()
    watch.update([NonFinite(0.5, 1, 2, 8), NonFinite(0.6, 0, 3, 8)], steps(0, 1), 1, 1.5)
    assert watch.newest is not None
    assert (watch.newest.replicas, watch.newest.variables, watch.newest.steps) == ((0, 1), 3, 1)


def test_a_finite_step_is_the_end_and_a_later_one_another_begin() -> None:
    watch = GradientWatch()
    watch.update([NonFinite(0.5, 0, 1, 8)], steps(0, 2), 2, 2.5)
    assert watch.newest == Gradients()
    watch.update([NonFinite(3.5, 0, 1, 8)], steps(2, 2), 4, 4.5)
    assert watch.newest is not None and (watch.newest.sequence, watch.newest.steps) == (3, 1)


def test_what_is_not_settled_waits() -> None:
    watch = GradientWatch()
    watch.update([NonFinite(1.5, 0, 1, 8)], steps(0, 1), 1, 1.2)
    assert watch.newest == Gradients()
    watch.update([], steps(1, 1), 2, 2.5)
    assert watch.newest is not None and watch.newest.sequence == 1


def test_a_step_that_never_ends_is_the_one_after_the_newest() -> None:
    """The process ends at once, or hangs in its all-reduce."""
    watch = GradientWatch()
    watch.update([NonFinite(1.5, 0, 1, 8)], steps(0, 1), 1, math.inf)
    assert watch.newest is not None
    assert (watch.newest.sequence, watch.newest.global_step, watch.newest.steps) == (1, None, 1)
