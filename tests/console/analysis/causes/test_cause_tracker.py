"""A cause does not change with every sample, and no number of old figures stays in its clause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tfscale.console.analysis.causes.cause_tracker import PATIENCE, CauseTracker
from tfscale.console.analysis.causes.vitals import Samples
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, Pressure
from tfscale.core.records.task_status import TaskState, TaskStatus

SUBJECTS = ("worker:0", "worker:1")
SLOW = Diagnosis(
    "straggler", "worker:1", 0.0, None, "warning", "worker:1 has been slow since long. The cluster loses much."
)
NOTHING = {"update": 0.0, "host": 0.0, "input": 0.0, "compute": 0.0}
COMPUTE = StragglerFigures(1.5, "compute", {**NOTHING, "compute": 0.05}, {**NOTHING, "compute": 0.15}, 0.1, 1.5, 9.0)
INPUT = replace(COMPUTE, phase="input", excess={"update": 0.0, "host": 0.0, "input": 0.05, "compute": 0.0})


def explained(tracker: CauseTracker, figures: StragglerFigures, **host: object) -> Diagnosis:
    """Return the straggler with its cause, where its host alone has these counters."""
    samples = {name: Samples() for name in SUBJECTS}
    usual = HostSample(0.4, 16, 6.0, 1, 2, 0, pressure=Pressure(0.0, 0.0, 0.0), throttled=0.0)
    for name, sample in zip(SUBJECTS, (usual, replace(usual, **host)), strict=True):  # type: ignore[arg-type]
        samples[name].add(Frame(1, 1.0, TaskStatus(TaskState.RUNNING), host=sample))
    (diagnosis,) = tracker.explain([SLOW], [(SUBJECTS, {"worker:1": figures})], {}, samples, 9.0)
    return diagnosis


def test_another_cause_has_to_match_for_some_time() -> None:
    tracker = CauseTracker()
    assert explained(tracker, COMPUTE).evidence["cause"] == "unknown"
    assert explained(tracker, COMPUTE, throttled=0.5).evidence["cause"] == "cpu"
    pressed = {"pressure": Pressure(0.0, 0.5, 0.0)}
    causes = [explained(tracker, COMPUTE, **pressed).evidence["cause"] for _ in range(PATIENCE)]
    assert causes == ["cpu"] * (PATIENCE - 1) + ["memory"]
    assert explained(tracker, COMPUTE).evidence["cause"] == "memory"


def test_a_straggler_that_was_measured_anew_has_no_number_of_the_old_figures() -> None:
    tracker = CauseTracker()
    assert explained(tracker, INPUT).evidence["input_share"] == 0.5
    half = replace(INPUT, excess={**INPUT.excess, "input": 0.02})
    assert explained(tracker, half).evidence["input_share"] == pytest.approx(0.2)
    assert explained(tracker, COMPUTE).evidence["cause"] == "unknown"
    assert explained(tracker, COMPUTE).sentence == SLOW.sentence


def test_of_many_stragglers_those_not_due_are_renewed_from_their_figures_alone() -> None:
    subjects = tuple(f"worker:{index}" for index in range(6))
    slow = [replace(SLOW, subject=subject) for subject in subjects[:5]]
    tracker, before = CauseTracker(), dict.fromkeys(subjects[:5], INPUT)
    for _ in range(3):
        tracker.explain(slow, [(subjects, before)], {}, {}, 9.0)
    after = dict.fromkeys(subjects[:5], COMPUTE)
    assert {each.evidence["cause"] for each in tracker.explain(slow, [(subjects, after)], {}, {}, 9.0)} == {"unknown"}
