"""Construction of a report out of the findings of replayed runs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS
from tfscale.console.analysis.run.load import load_of
from tfscale.console.analysis.run.scaling import ring_forecast
from tfscale.console.engine.events import Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.report.csv_file import MeasuredGroup
from tfscale.console.report.differences import settings_of
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.run_findings import RunFindings, play
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.console.sources.recorded import RecordedSource
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task, subject_order
from tfscale.core.comparison.size_forecast import Forecast
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import clock, moment


def report_recorded(path: Path, source: RecordedSource, name: str = "") -> RunReport:
    """Return the report of one run, called `name` beside others. Raises RecordingError as the source does."""
    run = play(source)
    group = _group(name, run, run.begin, run.end, run.steps, probe=run.probe)
    findings = tuple(_of_run(finding, name) for finding in run.ledger.findings)
    settings = settings_of(source.spec, run.probe, list(run.descriptions.values()))
    price = source.spec.gpu_price
    group = replace(group, findings=findings, gpus=run.gpus, gpu_price=price, settings=settings)
    facts = {**_facts(path, source.spec, group, run.probe), **run.resources.facts()}
    return RunReport(f"run {source.spec.name}", facts, (group,))


def report_runs(runs: Sequence[tuple[Path, RecordedSource]]) -> RunReport:
    """Return the report of several runs side by side. Raises RecordingError where a source does."""
    names = _names([path for path, _ in runs])
    reports = [report_recorded(path, source, name) for name, (path, source) in zip(names, runs, strict=True)]
    facts = {
        name: ", ".join(f"{key} {value}" for key, value in report.facts.items())
        for name, report in zip(names, reports, strict=True)
    }
    groups = tuple(group for report in reports for group in report.groups)
    return RunReport(f"{len(reports)} runs", facts, groups)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return distinct names of the files: their stems, else their whole paths."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _of_run(finding: ReportedFinding, name: str) -> ReportedFinding:
    if not name:
        return finding
    diagnosis = finding.diagnosis
    sentence, evidence = f"{name}: {diagnosis.sentence}", {**diagnosis.evidence, "group": name}
    return replace(finding, diagnosis=replace(diagnosis, sentence=sentence, evidence=evidence))


def report_measured(path: Path, groups: Iterable[MeasuredGroup]) -> RunReport:
    """Return the report of measurements; times are seconds from each group's first step on."""
    played = [(group, play(RecordedSource(_spec(group.workers), _events(group)))) for group in groups]
    reported = tuple(
        replace(
            _group(group.group, run, 0.0, float(group.end[-1]), len(group.step), is_whole=False),
            findings=tuple(_in_steps(finding, group) for finding in run.ledger.findings),
        )
        for group, run in played
    )
    workers = {str(worker) for group, _ in played for worker in group.workers}
    facts = {"file": str(path), "workers": str(len(workers)), "steps": f"{max(group.steps for group in reported):,}"}
    return RunReport(path.name, facts, reported, has_clock=False)


def _facts(path: Path, spec: ClusterSpec, group: RunGroup, probe: ProbeStatus | None) -> dict[str, str]:
    facts = {
        "file": str(path),
        "tasks": ", ".join(map(str, spec.tasks)) if len(spec.tasks) <= 8 else str(len(spec.tasks)),
    }
    if probe is not None:
        parts = (probe.strategy, probe.tensorflow and f"TensorFlow {probe.tensorflow}", probe.keras)
        facts["program"] = ", ".join(part for part in parts if part)
    facts |= {"from": moment(group.begin), "to": moment(group.end), "steps": f"{group.steps:,}"}
    if group.rate is not None:
        facts["steps"] += f", {group.rate:.3g} a second over the whole time"
    if group.gpus is not None:
        facts["GPUs"] = f"{group.gpus}, {group.price_of(group.end - group.begin)} in all"
    return facts


def _group(
    name: str,
    run: RunFindings,
    begin: float,
    end: float,
    steps: int,
    *,
    is_whole: bool = True,
    probe: ProbeStatus | None = None,
) -> RunGroup:
    findings = run.trained
    subjects = {name: findings.subjects[name] for name in sorted(findings.subjects, key=subject_order)}
    tasks = {name: summary for name, summary in subjects.items() if "/" not in name} or subjects
    return RunGroup(
        name,
        run.timeline,
        subjects,
        steps,
        begin,
        end,
        spent=run.spent if is_whole else {},
        scaling=_scaling(tasks, findings, probe),
        workers=(probe and probe.replicas) or len(tasks),
        examples=probe.examples_per_step if probe else None,
        training=run.training,
        gauges=run.gauges,
        curves=run.curves,
    )


def _scaling(
    subjects: Mapping[str, SubjectSummary], findings: Findings, probe: ProbeStatus | None
) -> tuple[Forecast, ...]:
    """Return the ring model's forecasts of other sizes from the last steps; none for a single worker."""
    lags = [summary.lag for summary in subjects.values() if summary.lag is not None]
    workers = len(lags)
    if workers < 2 or not findings.transfer or findings.step_time is None:
        return ()
    lag = max(findings.step_time - findings.transfer, 1e-9)
    load = load_of(findings, [*subjects.values()], probe)
    gathered = load.gathered if load else 0.0
    sizes = sorted({1, *(2**power for power in range(1, workers.bit_length() + 1)), workers, 2 * workers})
    return tuple(
        ring_forecast(lag, findings.transfer, workers, size, gathered) for size in sizes if size <= 2 * workers
    )


def _events(group: MeasuredGroup) -> Iterator[Event]:
    """Yield the measurements as agents would have sent them, with a diagnosis after each second."""
    for worker in group.workers:
        yield LinkChanged(0.0, worker, LinkState.UP)
    for low, high in _seconds(group.end):
        at = float(group.end[high - 1])
        for column, worker in enumerate(group.workers):
            yield FrameArrived(at, worker, _frame(group, column, low, high))
        yield SecondPassed(at)


def _seconds(end: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield the rows that end within the same second, as begin and end; a longer step stands alone."""
    edges = np.flatnonzero(np.diff(np.floor(end))) + 1
    starts = [0, *map(int, edges)]
    return zip(starts, [*starts[1:], len(end)], strict=True)


def _spec(workers: Iterable[Task]) -> ClusterSpec:
    addresses = {worker: Address("localhost", 1 + port) for port, worker in enumerate(workers)}
    return ClusterSpec("measured", addresses, addresses)


def _frame(group: MeasuredGroup, column: int, low: int, high: int) -> Frame:
    name = str(group.workers[column])
    first = min(int(group.step[0]), WARM_UP_STEPS + 1)
    batch = StepBatch(
        generation=1,
        attempt=1,
        reporter=name,
        subject=name,
        # Measurements that begin later than at the first steps have no warm-up that would have to be left out.
        sequence=range(first + low, first + high),
        end=array("d", group.end[low:high]),
        global_step=array("Q", group.step[low:high].tolist()),
        **_phases(group, column, low, high),
    )
    status = TaskStatus(TaskState.RUNNING, generation=1, attempt=1, started=0.0)
    return Frame(low, float(group.end[high - 1]), status, ProbeStatus(ProbeState.MEASURING), steps=(batch,))


def _phases(group: MeasuredGroup, column: int, low: int, high: int) -> dict[str, Any]:
    return {phase: array("f", group.phases[row, low:high, column]) for row, phase in enumerate(PHASES)}


def _in_steps(finding: ReportedFinding, group: MeasuredGroup) -> ReportedFinding:
    """Return the finding with the steps of its begin and end: a file without a clock counts in steps."""
    diagnosis = finding.diagnosis
    evidence = {**diagnosis.evidence, "begin_step": _step_at(group, diagnosis.begin)}
    sentence = diagnosis.sentence.replace(clock(diagnosis.begin), f"step {evidence['begin_step']}")
    if diagnosis.end is not None:
        evidence["end_step"] = _step_at(group, diagnosis.end)
        sentence = sentence.replace(clock(diagnosis.end), f"step {evidence['end_step']}")
    if group.group:
        evidence["group"] = group.group
        sentence = f"group {group.group}: {sentence}"
    # The change point may lie within the first step, which a straggler's own clock puts before its peers'.
    in_steps = replace(diagnosis, begin=max(0.0, diagnosis.begin), sentence=sentence, evidence=evidence)
    return replace(finding, diagnosis=in_steps)


def _step_at(group: MeasuredGroup, at: float) -> int:
    """Return the first step that ended after `at`."""
    return int(group.step[min(int(np.searchsorted(group.end, at, side="right")), len(group.step) - 1)])
