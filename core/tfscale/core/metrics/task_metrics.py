"""Metrics of one task from its newest frame and its counters, the same on the pages of agents and consoles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tfscale.core.metrics.metric_table import Families
from tfscale.core.metrics.task_totals import StepTotals
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.probe_status import ProbeState
from tfscale.core.records.step_batch import PHASES
from tfscale.core.records.task_status import TaskState, TaskStatus

STALE = 5.0
"""Seconds after which a frame or a snapshot no longer counts as present: one is due each second, and on a busy machine
it comes a second or two late. A page has nothing of what is older."""
UNKNOWN = "unknown"
"""State of a probe that has not reported, while nothing is known of why."""
_SILENT = (ProbeState.DISABLED, ProbeState.ABSENT)
"""States of a probe that counts no more: a counter that stood still would look like a task without steps."""


@dataclass(frozen=True, slots=True)
class PageGpu:
    """Fields of a `GpuSample` that a page shows: to read all of them of a thousand tasks takes five times as long."""

    uuid: str
    index: int
    energy: float | None


class TaskCounts(NamedTuple):
    """Counters of one task."""

    steps: StepTotals = StepTotals()
    collectives: tuple[int, int] | None = None
    """Collectives entered and left; None before the probe has reported."""


def add_task(
    families: Families,
    run: str,
    task: str,
    frame: Frame,
    *,
    host: str,
    counts: TaskCounts,
    gpus: Iterable[GpuSample | PageGpu],
) -> None:
    """Add the samples of a task. `gpus` are those that it may use, empty where that is not known."""
    status, probe = frame.status, frame.probe
    strategy = probe.strategy if probe is not None and probe.strategy else ""
    families.add("tfscale_task_info", run, task, host, strategy)
    families.add_states("tfscale_task_state", run, task, states=[*TaskState], present=status.state)
    families.add("tfscale_task_failed", run, task, value=_failed(status))
    if status.generation:
        families.add("tfscale_task_generation", run, task, value=status.generation)
        families.add("tfscale_task_attempt", run, task, value=status.attempt)
    for gpu in gpus:
        families.add("tfscale_task_gpu_info", run, task, gpu.uuid, str(gpu.index))
    if probe is None or probe.state not in _SILENT:
        _add_counts(families, run, task, counts)
    if status.state is not TaskState.RUNNING:
        return
    present = UNKNOWN if probe is None else str(probe.state)
    families.add_states("tfscale_probe_state", run, task, states=[*ProbeState, UNKNOWN], present=present)
    if probe is not None:
        families.add("tfscale_step_flops", run, task, value=probe.flops_per_step)
        for device, peak in probe.peak_of_device.items():
            families.add("tfscale_device_memory_peak_bytes", run, task, device, value=peak)
    families.add("tfscale_task_start_time_seconds", run, task, value=status.started)
    if frame.host is not None and (usage := frame.host.task) is not None:
        families.add("tfscale_task_cpu_cores", run, task, value=usage.cpu)
        families.add("tfscale_task_resident_memory_bytes", run, task, value=usage.memory)
    if (training := frame.training) is not None:
        families.add("tfscale_global_step", run, task, value=training.global_step)
        families.add("tfscale_loss", run, task, value=math.nan if training.finite is False else training.loss)
        families.add("tfscale_learning_rate", run, task, value=training.learning_rate)
        families.add("tfscale_progress_ratio", run, task, value=training.share_done)
        families.add("tfscale_time_left_seconds", run, task, value=training.time_left)


def add_energy(families: Families, run: str, gpus: Iterable[GpuSample | PageGpu]) -> None:
    """Add the energy of each GPU once, however many tasks share it."""
    for uuid, energy in {gpu.uuid: gpu.energy for gpu in gpus}.items():
        families.add("tfscale_gpu_energy_joules_total", run, uuid, value=energy)


def add_steps(families: Families, run: str, task: str, steps: StepTotals) -> None:
    """Add the counters of a task's steps, absent before its first."""
    if not steps.steps and not steps.lost:
        return
    families.add("tfscale_steps_total", run, task, value=steps.steps)
    families.add("tfscale_steps_lost_total", run, task, value=steps.lost)
    for phase, seconds in zip(PHASES, steps.seconds, strict=True):
        families.add("tfscale_step_phase_seconds_total", run, task, phase, value=seconds)


def _failed(status: TaskStatus) -> float | None:
    """Return 1 for a task that has failed, 0 for one that ended well, None for one that runs."""
    if status.state is TaskState.LOST:
        return 1.0
    return None if status.state is not TaskState.EXITED or status.exit is None else float(not status.exit.well)


def _add_counts(families: Families, run: str, task: str, counts: TaskCounts) -> None:
    add_steps(families, run, task, counts.steps)
    if counts.collectives is not None:
        entered, left = counts.collectives
        families.add("tfscale_collectives_entered_total", run, task, value=entered)
        families.add("tfscale_collectives_left_total", run, task, value=left)
