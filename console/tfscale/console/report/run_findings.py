"""Findings of a whole run: the fold of what a console says, second by second, while a recording is replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import Charge, kind_of
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state import ClusterState
from tfscale.console.report.finding_ledger import FindingLedger
from tfscale.console.report.run_report import NumberRange
from tfscale.console.report.timelines import GaugeTimeline, PhaseTimeline, TrainingTimeline
from tfscale.console.sources.recorded import RecordedSource
from tfscale.core.cluster.task import Task
from tfscale.core.metrics.run_resources import RunResources
from tfscale.core.records.frame import Description
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.training import training_numbers


class RunFindings:
    """Listener that keeps the findings of a whole run."""

    def __init__(self) -> None:
        self.timeline = PhaseTimeline()
        self.gauges = GaugeTimeline()
        self.curves = TrainingTimeline()
        self.findings = Findings()
        """Findings of the last second."""
        self.trained = Findings()
        """Findings of the last second in which steps were made."""
        self.probe: ProbeStatus | None = None
        self.begin = 0.0
        """Arrival of the first event, Unix seconds; 0 where there was none."""
        self.end = 0.0
        self.training: dict[str, NumberRange] = {}
        self.ledger = FindingLedger()
        self.resources = RunResources()
        self._worthless: dict[str, float] = {}
        """Seconds by bucket of goodput that passed while the steps were known to be worth nothing."""
        self._steps: dict[str, int] = {}
        self._gpus: dict[Task, int] = {}
        self.descriptions: dict[Task, Description] = {}
        """Descriptions of the agents, where the recording has them."""

    def event_folded(self, event: Event) -> None:
        self.begin = self.begin or event.at
        self.end = max(self.end, event.at)
        if isinstance(event, AgentDescribed):
            self.descriptions[event.task] = event.description
        if isinstance(event, FrameArrived):
            self.resources.note(event.task, event.frame)
            probe = event.frame.probe
            self.probe = probe or self.probe
            if probe is not None and probe.devices is not None:
                self._gpus[event.task] = probe.devices.gpus
            for batch in event.frame.steps:
                self._steps[batch.subject] = self._steps.get(batch.subject, 0) + len(batch.sequence)
            for name, value in training_numbers(event.frame.training).items():
                self.training.setdefault(name, NumberRange(value, value, value, value)).add(value)
            training = event.frame.training
            if training is not None:
                lost = [log.name for log in training.logs if log.value is None]
                for name in [*lost, *(["loss"] if training.finite is False else [])]:
                    if name in self.training:
                        self.training[name].last = None

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        # A snapshot between two seconds shows a command's progress, and nothing newly diagnosed.
        if snapshot.findings is not self.findings:
            before, self.findings = self.findings, snapshot.findings
            self._add_worthless(before)
            if self.findings.step_time is not None:
                self.trained = self.findings
            self.ledger.add(snapshot.at, self.findings)
            self.timeline.add(snapshot.at, self.findings)
            self.gauges.add(snapshot.at, snapshot.tasks)
            self.curves.add(snapshot.at, snapshot.tasks)

    def _add_worthless(self, before: Findings) -> None:
        """Add the time since the findings `before`, if an open finding makes all steps worthless."""
        charges = {kind_of(each).charges for each in self.findings.diagnoses if each.end is None}
        if Charge.WORTHLESS in charges and self.findings.condition.may_be_judged:
            for bucket, seconds in self.findings.spent.items():
                self._worthless[bucket] = self._worthless.get(bucket, 0.0) + seconds - before.spent.get(bucket, 0.0)

    @property
    def steps(self) -> int:
        """Number of steps of the subject that reported most."""
        return max(self._steps.values(), default=0)

    @property
    def gpus(self) -> int | None:
        """GPUs that the tasks trained on, None unknown or none."""
        return sum(self._gpus.values()) or None

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by bucket of goodput, with two that only the whole run shows.

        The time of worthless steps is in no other bucket; that of repeated steps is lost once. Time after a crash
        without a recovery lasts until the recording ends.
        """
        if not self.findings.spent:
            return {}
        findings, buckets = self.ledger.findings, dict(self.findings.spent)
        if any(kind_of(each.diagnosis).charges is Charge.RECOVERY and each.diagnosis.end is None for each in findings):
            buckets[Charge.RECOVERY] += max(0.0, self.end - self.findings.ran)
        charged = (each for each in findings if kind_of(each.diagnosis).charges is Charge.WORTHLESS)
        lost = sum(each.lost for each in charged) - buckets["lost_progress"]
        if lost > 0 and (known := sum(self._worthless.values())) > 0:
            moved = {bucket: min(buckets[bucket], lost * part / known) for bucket, part in self._worthless.items()}
            buckets = {bucket: seconds - moved.get(bucket, 0.0) for bucket, seconds in buckets.items()}
            buckets[Charge.WORTHLESS] = sum(moved.values())
        return buckets


def play(source: RecordedSource) -> RunFindings:
    """Run all of the source through the console's engine. Raises RecordingError where the source does."""
    findings, spec = RunFindings(), source.spec
    asyncio.run(Engine(source, lambda: ClusterState(spec, Diagnostician(spec), has_history=False)).run(findings))
    return findings
