"""Steps as columns of a step batch: the worker's own, and those of each of its replicas."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.timeline import UNKNOWN
from tfscale.trainer.probe.steps.usual_steps import UsualSteps

Columns = dict[str, Any]


def batches(task: str, steps: Sequence[Step], lost: int) -> Iterator[Columns]:
    """Yield the fields of each batch of these steps of `task`, except the reporter.

    `lost` is the number of lost steps before them.
    """
    if lost and not steps:
        yield _columns(task, steps, lost)
    if isinstance(steps, UsualSteps):
        yield _columns(task, steps, lost)
        return
    for alike in _alike(steps):
        yield _columns(task, alike, lost)
        for replica in range(len(alike[0].earlier)):
            yield _columns(f"{task}/replica:{replica}", [_of_replica(step, replica) for step in alike])
        lost = 0


def report_batches(task: str, report: ProbeReport) -> Iterator[Columns]:
    """Yield the fields of all batches in a report of `task`, except the reporter.

    The batches are its own, its stages' and its workers'.
    """
    yield from batches(task, report.steps, report.lost)
    for stage, steps in report.stages.items():
        yield _columns(f"{task}/stage:{stage}", steps)
    for measured in report.workers:
        yield {**_columns(measured.worker, measured.steps, measured.lost), "pull": _column(measured.pulls)}


def step_batches(task: str, generation: int, attempt: int, report: ProbeReport, part: int = 0) -> Iterator[StepBatch]:
    """Yield all batches in a report of `task`, as `report_batches` does."""
    for columns in report_batches(task, report):
        phases: dict[str, Any] = {name: array("f", columns.pop(name)) for name in (*PHASES, "pull") if name in columns}
        yield StepBatch(generation, attempt, task, **columns, **phases, part=part)


def _alike(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yield consecutive steps that have the same number of replicas."""
    yield from (list(alike) for _, alike in groupby(steps, key=lambda step: len(step.earlier)))


def _of_replica(step: Step, replica: int) -> Step:
    """Return the step of one replica: ready earlier than the slowest, it computes less and waits more."""
    earlier = step.earlier[replica]
    return step._replace(compute=step.compute - earlier, reduce=step.reduce + earlier)


def _columns(subject: str, steps: Sequence[Step], lost: int = 0) -> Columns:
    return {"subject": subject, "lost": lost, **(_arrays(steps) if isinstance(steps, UsualSteps) else _lists(steps))}


def _lists(steps: Sequence[Step]) -> Columns:
    are_counted = all(step.global_step is not None for step in steps)
    return {
        "sequence": [step.sequence for step in steps],
        "end": [step.end for step in steps],
        "global_step": [step.global_step for step in steps] if are_counted else [],
        **{phase: _column([getattr(step, phase) for step in steps]) for phase in PHASES},
        "clamped": sum(step.clamped for step in steps),
    }


def _arrays(steps: UsualSteps) -> Columns:
    """Return arrays, which are written unchanged: a third of the CPU of converting number by number."""
    # A phase is unknown in all steps or in none.
    known = {
        phase: array("f", seconds.tobytes()) if not math.isnan(first) else []
        for phase, seconds, first in zip(PHASES, steps.phases.astype("f"), steps.phases[:, 0].tolist(), strict=True)
    }
    return {
        "sequence": range(steps.first, steps.first + len(steps)),
        "end": array("d", steps.end.astype("d").tobytes()),
        "global_step": steps.global_step or (),
        **known,
    }


def _column(values: list[float]) -> list[float]:
    """Return the values, or none where all are unknown."""
    return [] if all(map(math.isnan, values)) else values


def without_phases(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps with unknown phases, because only their ends are right."""
    if isinstance(steps, UsualSteps):
        return steps.without_phases()
    return [
        step._replace(update=UNKNOWN, host=UNKNOWN, input=UNKNOWN, compute=UNKNOWN, reduce=UNKNOWN, earlier=())
        for step in steps
    ]
