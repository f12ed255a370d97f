"""Stages of a pipeline are told side by side, and however unequal they are, none is a straggler."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import StepBatch

STEPS_A_SECOND = 10
COMPUTE = {"stage:0": 0.02, "stage:1": 0.07}
"""Seconds in passes of a step whose passes last 80 ms."""


def batches(second: int, parts: dict[str, float]) -> Iterator[StepBatch]:
    sequence = range(second * STEPS_A_SECOND, (second + 1) * STEPS_A_SECOND)
    ends = [number / STEPS_A_SECOND for number in sequence]

    def column(seconds: float) -> array[float]:
        return array("f", [seconds] * STEPS_A_SECOND)

    whole = {"update": column(0.01), "host": column(0.01), "reduce": column(0.0)}
    for part, compute in parts.items():
        subject, phases = f"worker:0/{part}", {"compute": column(compute), "input": column(0.08 - compute)}
        yield StepBatch(1, 1, "worker:0", subject, sequence, ends, **whole, **phases)


def watch(observer: Diagnostician, frame: Callable[..., Frame], parts: dict[str, float]) -> list[Findings]:
    found = []
    for second in range(60):
        observer.observe("worker:0", frame(float(second + 1), *batches(second, parts)))
        found.append(observer.diagnose(float(second + 1)))
    return found


def test_a_stage_with_more_work_is_no_straggler(
    diagnostician: Callable[[int], Diagnostician], frame: Callable[..., Frame]
) -> None:
    found = watch(diagnostician(1), frame, COMPUTE)
    assert {each.kind for findings in found for each in findings.diagnoses} & {"straggler", "imbalance"} == set()
    stages = {name: found[-1].subjects[f"worker:0/{name}"] for name in COMPUTE}
    assert {name: stage.compute for name, stage in stages.items()} == pytest.approx(COMPUTE)
    assert stages["stage:0"].input == pytest.approx(0.06) and stages["stage:1"].input == pytest.approx(0.01)
    assert stages["stage:1"].ratio is None and stages["stage:1"].wait is None


def test_replicas_with_the_same_steps_would_be_compared(
    diagnostician: Callable[[int], Diagnostician], frame: Callable[..., Frame]
) -> None:
    """Without this the test above would show nothing."""
    slow = {"replica:0": 0.02, "replica:1": 0.02, "replica:2": 0.07}
    found = watch(diagnostician(1), frame, slow)
    assert found[-1].subjects["worker:0/replica:2"].ratio is not None
