"""Steps as columns: the worker's and its replicas'."""

import math

import pytest
from tfscale.trainer.probe.report.step_columns import batches
from tfscale.trainer.probe.steps.step import Step

UNKNOWN = math.nan


def step(sequence: int, **more: object) -> Step:
    return Step(sequence, 1.0 + sequence, 0.1, 0.2, 0.3, 0.4, 0.5)._replace(**more)  # type: ignore[arg-type]


def test_a_worker_of_one_replica_is_one_batch() -> None:
    (batch,) = batches("worker:1", [step(0, clamped=True), step(1)], lost=3)
    assert (batch["subject"], batch["sequence"], batch["end"]) == ("worker:1", [0, 1], [1.0, 2.0])
    assert (batch["compute"], batch["lost"], batch["clamped"]) == ([0.4, 0.4], 3, 1)


def test_a_replica_that_was_ready_early_computed_less_and_waited_more() -> None:
    worker, fast, slow = batches("worker:1", [step(0, earlier=(0.15, 0.0))], lost=0)
    assert [batch["subject"] for batch in (worker, fast, slow)] == [
        "worker:1",
        "worker:1/replica:0",
        "worker:1/replica:1",
    ]
    assert fast["compute"] == pytest.approx([0.25]) and fast["reduce"] == pytest.approx([0.65])
    assert (slow["compute"], slow["reduce"], slow["input"]) == ([0.4], [0.5], [0.3])


def test_a_phase_that_no_step_has_is_an_empty_column() -> None:
    (batch,) = batches("worker:0", [step(0, reduce=UNKNOWN), step(1, reduce=UNKNOWN, host=UNKNOWN)], lost=0)
    assert batch["reduce"] == []
    assert batch["host"][0] == 0.2 and math.isnan(batch["host"][1])


def test_global_steps_are_told_where_all_are_known() -> None:
    (known,) = batches("worker:0", [step(0, global_step=7), step(1, global_step=8)], lost=0)
    (unknown,) = batches("worker:0", [step(0, global_step=7), step(1)], lost=0)
    assert (known["global_step"], unknown["global_step"]) == ([7, 8], [])


def test_lost_steps_are_told_though_none_came() -> None:
    (batch,) = batches("worker:0", [], lost=5)
    assert (batch["lost"], batch["sequence"], batch["subject"]) == (5, [], "worker:0")
