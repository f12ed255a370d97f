"""Restarts that are left, and the pauses between them."""

from __future__ import annotations

import json

import pytest
from tfscale.agent.cluster.restart_budget import Progress, RestartBudget, parse_budget
from tfscale.core.cluster.recovery_policy import RecoveryPolicy

POLICY = RecoveryPolicy({}, max_restarts=4, period=100.0, backoff=2.0, most_backoff=10.0, without_progress=3)
NOTHING = Progress()


def after(ends: list[tuple[float, Progress]]) -> RestartBudget:
    """Return the budget after the last of these ends, each but the last followed by a restart at once."""
    budget = RestartBudget("worker:0")
    for at, reached in ends[:-1]:
        budget = budget.after_end(reached, at, POLICY).after_restart(at, 1)
    return budget.after_end(ends[-1][1], ends[-1][0], POLICY)


def test_the_restarts_of_a_period_are_counted() -> None:
    ends = [(float(at), Progress(step=at)) for at in range(5)]
    assert after(ends[:4]).why_spent(POLICY, needs_progress=True) == ""
    assert after(ends[:4]).which(POLICY) == "restart 4 of 4 within 100 s"
    assert after(ends).why_spent(POLICY, needs_progress=True) == "all 4 restarts within 100 s are spent"


def test_restarts_that_are_long_ago_count_no_more() -> None:
    ends = [(float(at), Progress(step=at)) for at in (0, 1, 2, 3, 101)]
    assert after(ends).why_spent(POLICY, needs_progress=True) == ""
    assert after(ends).which(POLICY) == "restart 3 of 4 within 100 s"


@pytest.mark.parametrize(
    ("reached", "fruitless"),
    [
        ([NOTHING] * 4, 3),
        ([Progress(step=9)] * 4, 3),
        ([Progress(step=9), Progress(step=5), Progress(step=9), Progress(step=8)], 3),
        ([Progress(step=9), Progress(step=5), Progress(step=10), Progress(step=8)], 1),
        ([NOTHING, NOTHING, NOTHING, Progress(step=1)], 0),
        ([Progress(5.0, 9), Progress(5.0, 3), Progress(6.0, 3), Progress(6.0, 3)], 1),
        ([Progress(9e9), Progress(9e9), Progress(5.0), Progress(6.0)], 0),  # a clock that was set back in between
        ([Progress(9e9), Progress(5.0), Progress(5.0), NOTHING], 2),
    ],
)
def test_a_newer_checkpoint_or_a_higher_step_is_progress(reached: list[Progress], fruitless: int) -> None:
    budget = after([(float(at), each) for at, each in enumerate(reached)])
    assert budget.fruitless == fruitless
    assert bool(budget.why_spent(POLICY, needs_progress=True)) is (fruitless == 3)
    assert budget.why_spent(POLICY, needs_progress=False) == ""


def test_what_was_given_up_for_is_told() -> None:
    budget = after([(float(at), NOTHING) for at in range(4)])
    why = budget.why_spent(POLICY, needs_progress=True)
    assert why == "the last 3 restarts brought neither a newer checkpoint nor a higher step"


def test_a_start_that_lasted_longer_than_the_period_is_progress() -> None:
    assert after([(0.0, NOTHING), (1.0, NOTHING), (102.0, NOTHING)]).fruitless == 0


def test_pauses_double_until_there_is_progress() -> None:
    pauses = [after([(float(at), NOTHING) for at in range(ends)]).pause(POLICY) for ends in range(1, 6)]
    assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0]
    assert after([(0.0, NOTHING), (1.0, NOTHING), (2.0, Progress(step=4))]).pause(POLICY) == 2.0


def test_what_was_written_is_read_again() -> None:
    budget = after([(0.0, Progress(3.5, 9)), (1.0, NOTHING)]).given_up("no more", 7)
    assert parse_budget(json.loads(json.dumps(budget.aged(50.0))), 50.0) == budget
    assert parse_budget(budget.aged(50.0), 1000.0).restarts == (950.0,)  # by the clock of another host
    for wrong in ({"name": "worker:0"}, {**budget.aged(50.0), "restarts": [-1.0]}):
        with pytest.raises((ValueError, KeyError, TypeError)):
            parse_budget(wrong, 50.0)
