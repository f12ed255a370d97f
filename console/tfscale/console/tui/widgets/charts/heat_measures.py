"""Measures of the heat map: a value of each task or GPU, and its scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.task_readings import gpus_of, host_cpu, host_of, over_gpus, summary_value
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.text import UNKNOWN, percent, ratio, step_time


@dataclass(frozen=True, slots=True)
class Spot:
    """Cell of the heat map: a task, or one GPU of its host."""

    view: TaskView
    gpu: GpuSample | None = None

    @property
    def key(self) -> tuple[Task, int | None]:
        return self.view.task, self.gpu.index if self.gpu else None

    @property
    def name(self) -> str:
        return str(self.view.task) if self.gpu is None else f"{self.view.task} GPU {self.gpu.index}"


@dataclass(frozen=True, slots=True)
class HeatMeasure:
    """Measure on a scale from `low` to `high`; without `high` up to the largest value, at least `smallest_high`."""

    description: str
    value: Callable[[Spot], float | None]
    format_value: Callable[[float | None], str]
    low: float
    high: float | None
    smallest_high: float = 0.0
    of_gpus: bool = False
    """True where the GPUs of one task have different values."""

    def scale(self, values: Sequence[float | None]) -> tuple[float, float]:
        """Return the values of the first and the last colour."""
        if self.high is not None:
            return self.low, self.high
        return self.low, max([self.smallest_high, *(value for value in values if value is not None)])


def spots(views: Sequence[TaskView], *, by_gpu: bool) -> list[Spot]:
    """Return the cells in the order of tasks; a GPU of several tasks has a single cell."""
    if not by_gpu:
        return [Spot(view) for view in views]
    spots: dict[tuple[str, int], Spot] = {}
    for view in views:
        for gpu in gpus_of(view):
            spots.setdefault((view.host, gpu.index), Spot(view, gpu))
    return list(spots.values())


def _of_summary(name: str) -> Callable[[Spot], float | None]:
    return lambda spot: summary_value(spot.view, name)


def _of_gpus(
    read: Callable[[GpuSample], float | None], combine: Callable[[Sequence[float]], float]
) -> Callable[[Spot], float | None]:
    return lambda spot: over_gpus((spot.gpu,) if spot.gpu else gpus_of(spot.view), read, combine)


def _memory_share(gpu: GpuSample) -> float | None:
    return None if gpu.memory_used is None or not gpu.memory_total else gpu.memory_used / gpu.memory_total


def _clock_share(gpu: GpuSample) -> float | None:
    return None if gpu.clock is None or not gpu.clock_max else gpu.clock / gpu.clock_max


def _memory_of_gpus_or_host(spot: Spot) -> float | None:
    on_gpus = _of_gpus(_memory_share, fmean)(spot)
    host = host_of(spot.view)
    return host.memory_used / host.memory_total if on_gpus is None and host and host.memory_total else on_gpus


def _degrees(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}°"


MEASURES: Mapping[str, HeatMeasure] = {
    "lag": HeatMeasure("lag over its peers'", _of_summary("ratio"), ratio, 1.0, None, 1.5),
    "wait": HeatMeasure("lost in a step, waiting for somebody slower", _of_summary("wait"), step_time, 0.0, None, 1e-3),
    "gpu": HeatMeasure("GPU in use", _of_gpus(lambda gpu: gpu.utilisation, fmean), percent, 0.0, 1.0, of_gpus=True),
    "heat": HeatMeasure(
        "GPU temperature", _of_gpus(lambda gpu: gpu.temperature, max), _degrees, 30.0, 95.0, of_gpus=True
    ),
    "clock": HeatMeasure("GPU clock, of its highest", _of_gpus(_clock_share, min), percent, 0.3, 1.0, of_gpus=True),
    "memory": HeatMeasure("memory taken", _memory_of_gpus_or_host, percent, 0.0, 1.0, of_gpus=True),
    "cpu": HeatMeasure("host's CPUs in use", lambda spot: host_cpu(spot.view), percent, 0.0, 1.0),
}
