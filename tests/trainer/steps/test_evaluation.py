"""Evaluation as one activity."""

from __future__ import annotations

import pytest
from tfscale.core.records.probe_status import Activity, ActivityKind
from tfscale.trainer.probe.steps.evaluation import Evaluation

KIND = ActivityKind.EVALUATION


def test_batches_are_one_activity_that_is_reported_when_it_begins_and_ends() -> None:
    evaluation = Evaluation()
    evaluation.add(10.0, 10.1)
    assert evaluation.is_open and evaluation.drain() == [Activity(KIND, 10.0)]
    evaluation.add(10.1, 10.3)
    assert evaluation.drain() == []
    assert evaluation.finish() == (10.0, 10.3)
    assert not evaluation.is_open and evaluation.drain() == [Activity(KIND, 10.0, 10.3)]
    assert evaluation.finish() is None


@pytest.mark.parametrize(("longest", "patience"), [(0.1, 1.0), (2.0, 6.0)])
def test_an_evaluation_of_long_batches_lasts_longer_without_one(longest: float, patience: float) -> None:
    evaluation = Evaluation()
    assert not evaluation.is_over(100.0)
    evaluation.add(10.0, 10.0 + longest)
    end = 10.0 + longest + patience
    assert not evaluation.is_over(end - 0.01) and evaluation.is_over(end + 0.01)
