"""Numbers of one moment of a run that trackers keep: of the cluster, and of each task by what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfscale.console.analysis.findings import loss_of
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.analysis.run.live_cost import GPU_HOURS
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.records.host_sample import GpuSample, HostSample
from tfscale.core.records.step_batch import PHASES

CLUSTER = "cluster"
_STEPS = (*PHASES, "step_time", "wait", "lag", "ratio")
_GPU = (
    *("utilisation", "memory_used", "memory_utilisation", "power", "energy", "temperature", "clock"),
    *("pcie_received", "pcie_sent"),
)
_HOST = ("cpu", "load", "memory_used", "swap_used")


@dataclass(frozen=True, slots=True)
class Moment:
    """Numbers of a run at one moment. Names and units are those of docs/reference/schema.md."""

    at: float
    """Unix seconds."""
    step: int
    """The optimizer's iterations, or where the program does not count them the all-reduces; 0 before the first."""
    values: Mapping[str, Mapping[str, float]]
    """Known numbers by name, of the `cluster` and of each task that is heard of, such as `worker-1`."""


def moment_of(snapshot: Snapshot) -> Moment:
    """Return what is known of the moment of a snapshot."""
    values = {CLUSTER: _known(_of_cluster(snapshot))}
    for view in snapshot.tasks:
        if not view.is_stale and view.frame is not None:
            values[f"{view.task.role}-{view.task.index}"] = _known(_of_task(view))
    return Moment(snapshot.at, max(map(_step, snapshot.tasks), default=0), values)


def _step(view: TaskView) -> int:
    training = view.frame.training if view.frame else None
    summary = view.summary
    counted = [each.global_step for each in (summary, training) if each is not None and each.global_step is not None]
    made = summary.step + 1 if summary is not None and summary.step is not None else 0
    return max(counted, default=made)


def _known(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    return {name: float(value) for name, value in values if value is not None}


def _of_cluster(snapshot: Snapshot) -> Iterator[tuple[str, float | None]]:
    findings = snapshot.findings
    for name in ("step_time", "steps_per_second", "examples_per_second", "slowdown", "transfer", "efficiency"):
        yield f"run/{name}", getattr(findings, name)
    total = sum(findings.spent.values())
    for bucket, seconds in findings.spent.items():
        yield f"goodput/{bucket}", seconds
    yield "goodput/share", findings.spent.get(PRODUCTIVE, 0.0) / total if total > 0 else None
    losses = [each for each in findings.diagnoses if each.end is None and loss_of(each)]
    costs = [cost for each in losses if (cost := each.number(GPU_HOURS)) is not None]
    # Where a loss has no cost, the number of GPUs is not known.
    yield f"cost/{GPU_HOURS}", max(costs, default=None if losses else 0.0)


def _of_task(view: TaskView) -> Iterator[tuple[str, float | None]]:
    assert view.frame is not None
    if view.is_up and view.summary is not None:
        for name in _STEPS:
            yield f"step/{name}", getattr(view.summary, name)
    if (host := view.frame.host) is not None:
        yield from _of_host(host)
    for gpu in view.frame.gpus:
        yield from _of_gpu(gpu)


def _of_host(host: HostSample) -> Iterator[tuple[str, float | None]]:
    for name in _HOST:
        yield f"host/{name}", getattr(host, name)
    for name in ("received", "sent"):
        yield f"network/{name}", sum(getattr(each, name) for each in host.interfaces)
    if host.disk is not None:
        for name in ("free", "read", "written"):
            yield f"disk/{name}", getattr(host.disk, name)
    if host.task is not None:
        for name in ("cpu", "memory"):
            yield f"process/{name}", getattr(host.task, name)


def _of_gpu(gpu: GpuSample) -> Iterator[tuple[str, float | None]]:
    for name in _GPU:
        yield f"gpu.{gpu.index}/{name}", getattr(gpu, name)
