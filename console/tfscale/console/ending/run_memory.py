"""Memory of a watched run: its steps, its last numbers, its limits, and what each finding cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.findings import Findings, is_calm
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.report.finding_ledger import FindingLedger
from tfscale.core.metrics.run_resources import RunResources
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.training import Training
from tfscale.core.text import four_digits


@dataclass(slots=True)
class RunMemory:
    """Fold of all events and snapshots of a run."""

    ledger: FindingLedger = field(default_factory=FindingLedger)
    reached: int | None = None
    """Newest step by the program's own number; None unknown."""
    limits: tuple[Diagnosis, ...] = ()
    """Limits of the run while it trained last, the largest first."""
    resources: RunResources = field(default_factory=RunResources)
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Newest loss and logs as text, by name."""
    _steps: dict[str, int] = field(default_factory=dict)
    """Steps by subject."""
    _judged: Findings | None = None

    @property
    def steps(self) -> int:
        """Steps of the subject that reported most, repeated ones included."""
        return max(self._steps.values(), default=0)

    def fold(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, FrameArrived):
            self.resources.note(event.task, event.frame)
            for batch in event.frame.steps:
                self._steps[batch.subject] = self._steps.get(batch.subject, 0) + len(batch.sequence)

    def add(self, snapshot: Snapshot) -> None:
        """Take in a snapshot; one between two seconds has no new findings, and adds nothing."""
        findings = snapshot.findings
        if findings is self._judged:
            return
        self._judged = findings
        self.ledger.add(snapshot.at, findings)
        if findings.condition.kind is Condition.TRAINING and findings.step_time is not None:
            limits = [each for each in findings.diagnoses if each.end is None and each.kind == "saturation"]
            self.limits = tuple(limit for limit in limits if limit.statement or not is_calm(limit))
            reached = [each.global_step for each in findings.subjects.values() if each.global_step is not None]
            self.reached = max(reached, default=None)
        trainings = [view.frame.training for view in snapshot.tasks if view.frame and view.frame.training]
        self.numbers = _numbers(trainings[0]) or self.numbers if trainings else self.numbers


def _numbers(training: Training) -> dict[str, str]:
    """Return loss and logs as text."""
    loss = "NaN" if training.finite is False else four_digits(training.loss)
    numbers = {} if training.loss is None and training.finite is not False else {"loss": loss}
    return numbers | {log.name: "NaN" if log.value is None else four_digits(log.value) for log in training.logs}
