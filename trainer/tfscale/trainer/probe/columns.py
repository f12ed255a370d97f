"""Steps as columns, the worker's own and one set for each of its replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from tfscale.trainer.probe.report import Report
from tfscale.trainer.probe.steps import Step
from tfscale.trainer.probe.timeline import UNKNOWN

Columns = dict[str, Any]
PHASES = ("update", "host", "input", "compute", "reduce")


def batches(task: str, steps: Sequence[Step], lost: int) -> Iterator[Columns]:
    """The fields of each batch that tells of `steps` and of `lost` ones before, but for who reports."""
    if lost and not steps:
        yield {**_columns(steps), "subject": task, "lost": lost}
    for _, alike in groupby(steps, key=lambda step: len(step.earlier)):
        rows = list(alike)
        yield {**_columns(rows), "subject": task, "lost": lost, "clamped": sum(step.clamped for step in rows)}
        for replica in range(len(rows[0].earlier)):
            yield {**_columns([_of_replica(step, replica) for step in rows]), "subject": f"{task}/replica:{replica}"}
        lost = 0


def report_batches(task: str, report: Report) -> Iterator[Columns]:
    """The fields of all batches in a report of `task`, its own and those of its workers, but for who reports."""
    yield from batches(task, report.steps, report.lost)
    for measured in report.workers:
        columns = _columns(measured.steps)
        yield {
            **columns,
            "subject": measured.worker,
            "lost": measured.lost,
            "clamped": sum(step.clamped for step in measured.steps),
            "pull": _column(measured.pulls),
        }


def _of_replica(step: Step, replica: int) -> Step:
    """The step as one replica had it: ready earlier than the slowest, and waiting so much longer."""
    earlier = step.earlier[replica]
    return step._replace(compute=step.compute - earlier, reduce=step.reduce + earlier)


def _columns(steps: Sequence[Step]) -> Columns:
    known = all(step.global_step is not None for step in steps)
    return {
        "sequence": [step.sequence for step in steps],
        "end": [step.end for step in steps],
        "global_step": [step.global_step for step in steps] if known else [],
        **{phase: _column([getattr(step, phase) for step in steps]) for phase in PHASES},
    }


def _column(values: list[float]) -> list[float]:
    """Empty where it would say nothing."""
    return [] if all(map(math.isnan, values)) else values


def without_phases(step: Step) -> Step:
    """A step of which only its end is to be believed."""
    return step._replace(update=UNKNOWN, host=UNKNOWN, input=UNKNOWN, compute=UNKNOWN, reduce=UNKNOWN, earlier=())
