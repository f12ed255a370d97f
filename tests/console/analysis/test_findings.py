"""Order of diagnoses for a reader."""

from __future__ import annotations

from tfscale.console.analysis.findings import by_cost, by_severity, one_each
from tfscale.core.records.diagnosis import Diagnosis, Evidence


def test_open_ones_come_first_then_the_severe_then_causes_before_effects_then_the_oldest() -> None:
    first_to_last = [
        Diagnosis("crash", "worker:0", 9.0, None, "critical", ""),
        Diagnosis("hang", "worker:1", 1.0, None, "critical", ""),
        Diagnosis("straggler", "worker:0", 1.0, None, "warning", ""),
        Diagnosis("straggler", "worker:1", 2.0, None, "warning", ""),
        Diagnosis("crash", "worker:2", 1.0, 5.0, "critical", ""),
    ]
    last_to_first = first_to_last[::-1]
    assert sorted(last_to_first, key=by_severity) == first_to_last


def costing(kind: str, share: float | None, severity: str) -> Diagnosis:
    figures: Evidence = {} if share is None else {"cost": share, "slowdown": 1 / (1 - share)}
    return Diagnosis(kind, "worker:1", 1.0, None, severity, "", figures)


def test_what_costs_most_now_comes_first_and_what_is_unknown_has_the_least_cost_of_its_severity() -> None:
    first_to_last = [
        costing("not_finite", None, "serious"),
        costing("slow_link", 0.77, "warning"),
        costing("slow_link", None, "critical"),
        costing("pauses", 0.3, "warning"),
        costing("unused_gpus", None, "serious"),
        costing("straggler", 0.02, "critical"),
    ]
    last_to_first = first_to_last[::-1]
    assert sorted(last_to_first, key=lambda each: by_cost(each, trains=True)) == first_to_last


def test_what_keeps_the_cluster_from_training_costs_all_of_the_time() -> None:
    still, link = costing("still", None, "warning"), costing("slow_link", 0.77, "critical")
    assert min((still, link), key=lambda each: by_cost(each, trains=False)) is still
    assert min((still, link), key=lambda each: by_cost(each, trains=True)) is link


def test_diagnoses_that_share_a_sentence_are_told_once_by_the_first() -> None:
    first, second, other = (
        Diagnosis("straggler", f"worker:{index}", 1.0, None, "warning", "", together=together)
        for index, together in enumerate((("worker:0", "worker:1"), ("worker:0", "worker:1"), ()))
    )
    assert one_each([first, other, second]) == [first, other]
