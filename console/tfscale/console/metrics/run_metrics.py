"""Metrics of one run, from the events and snapshots of its engine."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tfscale.console.engine.events import Event, FrameArrived, LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.metrics.metric_table import Families
from tfscale.core.metrics.task_metrics import STALE, PageGpu, TaskCounts, add_energy, add_steps, add_task
from tfscale.core.metrics.task_totals import CollectiveTotals, StepTotals
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.step_batch import PHASES, StepBatch

_NOISE = 1.0
"""Seconds by which the sum of all buckets may seem to fall: clocks of hosts differ."""


class RunMetrics:
    """Listener of a run's engine, which a page reads in another thread.

    Nothing is shown before the console has caught up with the past: a counter that ran through ten minutes in a second
    would be taken for a rate.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self.cluster = spec.fingerprint
        self._collectives: dict[Task, CollectiveTotals] = {}
        self._steps: dict[str, StepTotals] = {}
        """Totals by the name of the task whose steps they are."""
        self._goodput: dict[str, float] = {}
        self._present: _Present | None = None

    def event_folded(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, FrameArrived):
            self._collectives.setdefault(event.task, CollectiveTotals()).note(event.frame)
            for batch in event.frame.steps:
                self._add(batch)

    def _add(self, batch: StepBatch) -> None:
        # The rows of replicas and stages are parts of those of their task.
        if "/" not in batch.subject:
            known = self._steps.get(batch.subject, StepTotals())
            seconds = [_known_sum(getattr(batch, phase)) for phase in PHASES]
            self._steps[batch.subject] = known.plus(len(batch.sequence), batch.lost, seconds)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Take in a snapshot."""
        counted = snapshot.findings.counted
        if sum(counted.values()) < sum(self._goodput.values()) - _NOISE:
            self._goodput = {}  # another run has begun
        self._goodput |= {name: max(seconds, self._goodput.get(name, 0.0)) for name, seconds in counted.items()}
        collectives = {task: totals.counts for task, totals in self._collectives.items()}
        self._present = _Present(
            snapshot, time.monotonic() - snapshot.age, self._steps.copy(), collectives, self._goodput.copy()
        )

    @property
    def is_present(self) -> bool:
        """True while the newest snapshot is of now."""
        return self._present is not None and self._present.age <= STALE

    @property
    def run(self) -> str:
        """Name of the run; empty before the first snapshot."""
        return "" if self._present is None else self._present.snapshot.run

    def add_to(self, families: Families, run: str) -> None:
        """Add the samples of the run under this name; while its snapshot is old, of that only the time."""
        if (present := self._present) is not None:
            present.add_to(families, run)


@dataclass(frozen=True, slots=True)
class _Present:
    """Everything that a page shows of a run, frozen with its snapshot."""

    snapshot: Snapshot
    begin: float
    """Monotonic seconds of the snapshot's moment."""
    steps: Mapping[str, StepTotals]
    collectives: Mapping[Task, tuple[int, int] | None]
    goodput: Mapping[str, float] = field(default_factory=dict)

    @property
    def age(self) -> float:
        return time.monotonic() - self.begin

    def add_to(self, families: Families, run: str) -> None:
        snapshot = self.snapshot
        families.add("tfscale_run_snapshot_time_seconds", run, value=snapshot.at)
        if self.age > STALE:
            return
        shared, all_gpus = Counter(view.host for view in snapshot.tasks), list[PageGpu]()
        for view in snapshot.tasks:
            gpus = view.frame.counters.gpus_as(PageGpu) if view.frame is not None and not view.is_stale else ()
            all_gpus += gpus
            # Tasks that share a host share its GPUs, and the console does not know how.
            self._add_task(families, run, view, gpus if shared[view.host] == 1 else ())
        add_energy(families, run, all_gpus)
        named = {str(view.task) for view in snapshot.tasks if view.frame is not None}
        for task, steps in self.steps.items():
            if task not in named:
                add_steps(families, run, task, steps)
        self._add_run(families, run)

    def _add_task(self, families: Families, run: str, view: TaskView, gpus: Iterable[PageGpu]) -> None:
        task = str(view.task)
        families.add("tfscale_agent_up", run, task, value=float(view.link.state is LinkState.UP))
        if view.is_stale or view.frame is None:
            return
        counts = TaskCounts(self.steps.get(task, StepTotals()), self.collectives.get(view.task))
        add_task(families, run, task, view.frame, host=view.host, counts=counts, gpus=gpus)
        if view.is_up and view.summary is not None and self.snapshot.findings.steps_per_second:
            families.add("tfscale_lag_seconds", run, task, value=view.summary.lag)
            families.add("tfscale_lag_ratio", run, task, value=view.summary.ratio)
            families.add("tfscale_mfu_ratio", run, task, value=self.snapshot.mfu(view))

    def _add_run(self, families: Families, run: str) -> None:
        findings = self.snapshot.findings
        for kind, subject, severity in _open(findings.diagnoses):
            families.add("tfscale_diagnosis_active", run, kind, subject, severity)
        for bucket, seconds in self.goodput.items():
            families.add("tfscale_goodput_seconds_total", run, bucket, value=seconds)
        if self.goodput:
            pending = sum(findings.spent.values()) - sum(self.goodput.values())
            families.add("tfscale_goodput_pending_seconds", run, value=max(pending, 0.0))
        if findings.steps_per_second:
            families.add("tfscale_run_step_seconds", run, value=findings.step_time)
            families.add("tfscale_run_efficiency_ratio", run, value=findings.efficiency)
            families.add("tfscale_run_slowdown_ratio", run, value=findings.slowdown)
        if (progress := self.snapshot.progress) is not None:
            families.add("tfscale_run_progress_ratio", run, value=progress.share_done)
            families.add("tfscale_run_time_left_seconds", run, value=progress.time_left)


def _open(diagnoses: Iterable[Diagnosis]) -> dict[tuple[str, str, str], None]:
    """Return kind, subject and severity of the open findings, each once: one subject may have two of a kind."""
    return dict.fromkeys((each.kind, each.subject, each.severity) for each in diagnoses if each.end is None)


def _known_sum(column: Sequence[float]) -> float | None:
    """Return the sum of the known numbers, None where there is none."""
    total = sum(column, 0.0)
    if not math.isnan(total):
        return total if len(column) else None
    values = np.asarray(column, np.float64)
    known = values[~np.isnan(values)]
    return float(known.sum()) if len(known) else None
