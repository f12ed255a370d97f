"""Metrics of the pages for Prometheus: name, kind, unit and labels of each, and the families that hold samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric


class MetricRow(NamedTuple):
    """Metric of a page. Counters end in `_total`, and numbers with a unit in its name (prometheus.io, naming)."""

    kind: Literal["counter", "gauge", "info"]
    labels: tuple[str, ...]
    about: str
    """Help text of the page."""
    unit: str = ""
    """Unit in which OpenMetrics has the number; the name ends with it."""


_TASK = ("run", "task")
METRICS: dict[str, MetricRow] = {
    "tfscale_build_info": MetricRow("info", ("program", "version"), "Program that serves this page."),
    "tfscale_agent_up": MetricRow("gauge", _TASK, "1 while the console hears the task's agent, else 0."),
    "tfscale_task_info": MetricRow("info", (*_TASK, "host", "strategy"), "Host and strategy of the task."),
    "tfscale_task_state": MetricRow("gauge", (*_TASK, "state"), "1 for the state of the task, 0 for the others."),
    "tfscale_task_failed": MetricRow(
        "gauge", _TASK, "1 where the task was lost or ended with an error, 0 where it ended well; absent while it runs."
    ),
    "tfscale_task_generation": MetricRow("gauge", _TASK, "Generation of the task: one start of the cluster."),
    "tfscale_task_attempt": MetricRow("gauge", _TASK, "Starts of the task within its generation."),
    "tfscale_task_start_time_seconds": MetricRow(
        "gauge", _TASK, "Unix time at which the running process of the task was started.", "seconds"
    ),
    "tfscale_task_cpu_cores": MetricRow("gauge", _TASK, "Cores that the task's processes use, over the last second."),
    "tfscale_task_resident_memory_bytes": MetricRow(
        "gauge", _TASK, "Resident memory of the task's processes.", "bytes"
    ),
    "tfscale_task_gpu_info": MetricRow(
        "info", (*_TASK, "UUID", "gpu"), "GPU of the task; UUID and gpu are those of dcgm-exporter."
    ),
    "tfscale_gpu_energy_joules_total": MetricRow(
        "counter", ("run", "UUID"), "Energy of a GPU of the run's hosts since its driver was loaded, by NVML.", "joules"
    ),
    "tfscale_device_memory_peak_bytes": MetricRow(
        "gauge", (*_TASK, "device"), "Most memory that TensorFlow has held at once on the task's GPU.", "bytes"
    ),
    "tfscale_step_flops": MetricRow(
        "gauge", _TASK, "Floating-point operations of the task's part of a step that TensorFlow counts."
    ),
    "tfscale_probe_state": MetricRow(
        "gauge", (*_TASK, "state"), "1 for the state of the probe in the running task, 0 for the others."
    ),
    "tfscale_steps_total": MetricRow("counter", _TASK, "Steps measured since this page's program began."),
    "tfscale_steps_lost_total": MetricRow("counter", _TASK, "Steps that were made and could not be measured."),
    "tfscale_step_phase_seconds_total": MetricRow(
        "counter", (*_TASK, "phase"), "Time of the measured steps in each phase.", "seconds"
    ),
    "tfscale_collectives_entered_total": MetricRow("counter", _TASK, "Gradient reductions that the task has entered."),
    "tfscale_collectives_left_total": MetricRow("counter", _TASK, "Gradient reductions that the task has left."),
    "tfscale_global_step": MetricRow("gauge", _TASK, "Iterations of the optimizer, as the program counts them."),
    "tfscale_loss": MetricRow("gauge", _TASK, "Loss of the newest step that logs one; NaN where it is not finite."),
    "tfscale_learning_rate": MetricRow("gauge", _TASK, "Learning rate of the optimizer."),
    "tfscale_progress_ratio": MetricRow(
        "gauge", _TASK, "Share of the task's fit or loop that is done, where its length is known.", "ratio"
    ),
    "tfscale_time_left_seconds": MetricRow(
        "gauge", _TASK, "Time until the task's fit or loop is done, by its recent pace.", "seconds"
    ),
    "tfscale_lag_seconds": MetricRow(
        "gauge", _TASK, "Median time from leaving one all-reduce to entering the next, of the newest steps.", "seconds"
    ),
    "tfscale_lag_ratio": MetricRow(
        "gauge", _TASK, "Lag of the task over the median lag of the others, of the newest steps.", "ratio"
    ),
    "tfscale_mfu_ratio": MetricRow(
        "gauge", _TASK, "Share of the stated peak of the task's devices that the newest steps use at least.", "ratio"
    ),
    "tfscale_diagnosis_active": MetricRow(
        "gauge", ("run", "kind", "subject", "severity"), "1 while a finding of this kind about the subject is open."
    ),
    "tfscale_goodput_seconds_total": MetricRow(
        "counter", ("run", "bucket"), "Time of the run by what it went into, up to the newest step.", "seconds"
    ),
    "tfscale_goodput_pending_seconds": MetricRow(
        "gauge", ("run",), "Time since the newest step, which is in no bucket so far.", "seconds"
    ),
    "tfscale_run_step_seconds": MetricRow("gauge", ("run",), "Median of the run's newest steps.", "seconds"),
    "tfscale_run_efficiency_ratio": MetricRow(
        "gauge", ("run",), "Scaling efficiency: a worker's own work over the step.", "ratio"
    ),
    "tfscale_run_slowdown_ratio": MetricRow(
        "gauge", ("run",), "Step time over that with the open stragglers as fast as their peers.", "ratio"
    ),
    "tfscale_run_progress_ratio": MetricRow(
        "gauge", ("run",), "Share of the training that is done, of the task that will be done last.", "ratio"
    ),
    "tfscale_run_time_left_seconds": MetricRow(
        "gauge", ("run",), "Time until the last task is done; absent while the run stands still.", "seconds"
    ),
    "tfscale_run_snapshot_time_seconds": MetricRow(
        "gauge",
        ("run",),
        "Unix time of which the console tells; all else of the run is absent while it is old.",
        "seconds",
    ),
}
"""All metrics by name, in the order of the pages."""
_Family = CounterMetricFamily | GaugeMetricFamily | InfoMetricFamily


class Families:
    """Samples of one page by metric. What is unknown is absent: a sample without a value is not kept."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def add(self, name: str, *labels: str, value: float | None = 1.0) -> None:
        """Add a sample, with the labels in the order of the row; None adds nothing."""
        if value is None:
            return
        if (family := self._families.get(name)) is None:
            family = self._families[name] = _family(name, METRICS[name])
        if isinstance(family, InfoMetricFamily):
            family.add_metric(labels, {})
        else:
            family.add_metric(labels, value)

    def add_states(self, name: str, *labels: str, states: Iterable[str], present: str) -> None:
        """Add a sample for each state: 1 for the present one, 0 for the others."""
        for state in states:
            self.add(name, *labels, state, value=float(state == present))

    def metrics(self) -> list[Metric]:
        """Return the families that have samples, in the order of `METRICS`."""
        return [self._families[name] for name in METRICS if name in self._families]


def _family(name: str, row: MetricRow) -> _Family:
    if row.kind == "info":
        return InfoMetricFamily(name.removesuffix("_info"), row.about, labels=row.labels)
    make = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
    return make(name.removesuffix("_total"), row.about, labels=row.labels, unit=row.unit)
