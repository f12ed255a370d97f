"""Stages of a pipeline: parts of one model, whose steps are shown side by side and never compared.

A stage waits for its neighbours by design, and stages may have unequal work: no stage is a straggler of another.
"""

from __future__ import annotations

from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.steps.step_summary import SECONDS, STEPS, summaries
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.core.records.step_batch import StepBatch

_PREFIX = "stage:"


def is_stage(part: str) -> bool:
    """Decide whether the part of a task that a subject names (`worker:0/stage:1`) is a stage."""
    return part.startswith(_PREFIX)


class PipelineStages:
    """The steps of all stages of the cluster."""

    def __init__(self) -> None:
        self._table = StepTable()

    def add(self, batch: StepBatch) -> None:
        """Take in the steps of one stage."""
        self._table.add(batch)

    def summaries(self) -> dict[str, SubjectSummary]:
        """Summarise each stage's newest steps."""
        subjects = self._table.subjects()
        newest = max((len(self._table.recent(subject, SECONDS, STEPS)) for subject in subjects), default=0)
        return summaries(self._table, self._table.aligned(()), max(STEPS, newest))
