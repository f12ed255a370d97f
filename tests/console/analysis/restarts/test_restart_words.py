"""Sentences about what a restart has cost and gained."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tfscale.console.analysis.restarts.restart_words import Cost, Expected, MeasuredRestart, restart_diagnosis
from tfscale.console.analysis.restarts.step_rate import StepRate


def rate(steps_per_second: float) -> StepRate:
    return StepRate(np.full(30, -math.log(steps_per_second)) + 0.001 * np.tile([1.0, -1.0, 0.0], 10))


WORKERS = ("worker:0", "worker:1", "worker:2")
RESTART = MeasuredRestart(
    tasks=WORKERS,
    others=False,
    count=1,
    begin=100.0,
    end=141.0,
    now=300.0,
    idle=0.0,
    cost=Cost(41.0, 12),
    before=rate(10.0),
    after=rate(12.8),
    expected=Expected(0.3),
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "restart of 3 workers gained 28% (30% expected), cost 41 s with 12 repeated steps, paid back after 146 s"),
        (
            {"now": 200.0, "cost": Cost(41.0, 1), "expected": Expected()},
            "restart of 3 workers gained 28%, cost 41 s with 1 repeated step, will be paid back after 146 s",
        ),
        (
            {"tasks": ("worker:3",), "others": True, "expected": Expected(0.3, is_bound=True), "cost": Cost(41.0)},
            "restart of worker:3 gained 28% (up to 30% expected), cost 41 s, paid back after 146 s",
        ),
        (
            {"cost": Cost(3641.0, is_least=True), "expected": Expected()},
            "restart of 3 workers gained 28%, cost at least 1 h 00 m, will be paid back after at least 3 h 36 m",
        ),
        (
            {"after": rate(10.1), "expected": Expected()},
            "restart of 3 workers cost 41 s with 12 repeated steps; as fast as before",
        ),
        (
            {"after": rate(10.1)},
            "restart of 3 workers cost 41 s with 12 repeated steps; as fast as before, though 30% more was expected",
        ),
        (
            {"after": rate(9.2), "expected": Expected(), "count": 2},
            "2 restarts of 3 workers cost 41 s with 12 repeated steps; 8% slower than before",
        ),
        (
            {"after": rate(10.0), "expected": Expected(), "cost": Cost(8500.0, 500, 99_500), "idle": 28_920.0},
            "restart of 3 workers, after 8 h 02 m without a step, costs some 2 h 21 m until 99,500 more steps are "
            "repeated; as fast as before",
        ),
        (
            {"why_not_compared": "batch 128, before 64", "cost": Cost(41.0)},
            "restart of 3 workers cost 41 s; not compared with before: batch 128, before 64",
        ),
        (
            {"cost": None, "after": rate(9.2), "expected": Expected()},
            "restart of 3 workers is over; 8% slower than before; what it cost is not known: the clocks of hosts and "
            "console disagree",
        ),
        (
            {"tasks": ("chief:0", "ps:0", "ps:1"), "others": True, "after": rate(10.0), "expected": Expected()},
            "restart of chief:0, ps:0 and ps:1 cost 41 s with 12 repeated steps; as fast as before",
        ),
        (
            {"tasks": ("chief:0", "worker:0", "ps:0"), "after": rate(10.0), "expected": Expected()},
            "restart of 3 tasks cost 41 s with 12 repeated steps; as fast as before",
        ),
    ],
)
def test_what_is_known_is_one_sentence(changes: dict[str, object], sentence: str) -> None:
    assert restart_diagnosis(replace(RESTART, **changes)).sentence == sentence  # type: ignore[arg-type]


def test_only_what_was_gained_is_paid_back() -> None:
    assert restart_diagnosis(RESTART).evidence["paid_back_after"] == pytest.approx(146.4, abs=0.5)
    assert "paid_back_after" not in restart_diagnosis(replace(RESTART, after=rate(9.0))).evidence
    assert "paid_back_after" not in restart_diagnosis(replace(RESTART, cost=None)).evidence


def test_one_task_is_the_subject_and_several_are_the_cluster() -> None:
    assert restart_diagnosis(RESTART).subject == "cluster"
    assert restart_diagnosis(replace(RESTART, tasks=("worker:1",))).subject == "worker:1"
