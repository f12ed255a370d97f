"""What a heat map can show of each task or GPU, and on which scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfscale.console.engine.model import TaskView
from tfscale.console.widgets import format
from tfscale.core.records import GpuSample
from tfscale.core.task import Task


@dataclass(frozen=True, slots=True)
class Spot:
    """One cell: a task, or one of its host's GPUs."""

    view: TaskView
    gpu: GpuSample | None = None

    @property
    def key(self) -> tuple[Task, int | None]:
        return self.view.task, self.gpu.index if self.gpu else None

    @property
    def name(self) -> str:
        return str(self.view.task) if self.gpu is None else f"{self.view.task} GPU {self.gpu.index}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One of them. The scale goes from `low` to `high`; None: to the largest value, but never below `least`."""

    about: str
    value: Callable[[Spot], float | None]
    shown: Callable[[float | None], str]
    low: float
    high: float | None
    least: float = 0.0
    of_gpus: bool = False
    """Whether GPUs of one task differ in it."""

    def scale(self, values: Sequence[float | None]) -> tuple[float, float]:
        """What the first and the last colour stand for."""
        if self.high is not None:
            return self.low, self.high
        return self.low, max([self.least, *(value for value in values if value is not None)])


def spots(views: Sequence[TaskView], *, by_gpu: bool) -> list[Spot]:
    """The cells in the order of tasks. GPUs that several tasks of one host report are there once."""
    if not by_gpu:
        return [Spot(view) for view in views]
    seen: dict[tuple[str, int], Spot] = {}
    for view in views:
        for gpu in view.frame.gpus if view.frame else ():
            seen.setdefault((view.host, gpu.index), Spot(view, gpu))
    return list(seen.values())


def _of_summary(name: str) -> Callable[[Spot], float | None]:
    return lambda spot: getattr(spot.view.summary, name) if spot.view.summary else None


def _of_gpus(
    value: Callable[[GpuSample], float | None], fold: Callable[[list[float]], float]
) -> Callable[[Spot], float | None]:
    def of_spot(spot: Spot) -> float | None:
        gpus = (spot.gpu,) if spot.gpu else spot.view.frame.gpus if spot.view.frame else ()
        known = [each for gpu in gpus if (each := value(gpu)) is not None]
        return fold(known) if known else None

    return of_spot


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _taken(gpu: GpuSample) -> float | None:
    return None if gpu.memory_used is None or not gpu.memory_total else gpu.memory_used / gpu.memory_total


def _clock(gpu: GpuSample) -> float | None:
    return None if gpu.clock is None or not gpu.clock_max else gpu.clock / gpu.clock_max


def _memory(spot: Spot) -> float | None:
    """Of the GPUs, of the host where there are none."""
    taken = _of_gpus(_taken, _mean)(spot)
    host = spot.view.frame.host if spot.view.frame else None
    return host.memory_used / host.memory_total if taken is None and host and host.memory_total else taken


def _cpu(spot: Spot) -> float | None:
    return spot.view.frame.host.cpu if spot.view.frame and spot.view.frame.host else None


def _times(value: float | None) -> str:
    return format.UNKNOWN if value is None else f"{value:.2f}"


def _degrees(value: float | None) -> str:
    return format.UNKNOWN if value is None else f"{value:.0f}°"


MEASURES: Mapping[str, Measure] = {
    "lag": Measure("lag over its peers'", _of_summary("ratio"), _times, 1.0, None, 1.5),
    "wait": Measure(
        "lost in a step, waiting for somebody slower", _of_summary("wait"), format.seconds, 0.0, None, 1e-3
    ),
    "gpu": Measure("GPU in use", _of_gpus(lambda gpu: gpu.utilisation, _mean), format.percent, 0.0, 1.0, of_gpus=True),
    "heat": Measure("GPU temperature", _of_gpus(lambda gpu: gpu.temperature, max), _degrees, 30.0, 95.0, of_gpus=True),
    "clock": Measure("GPU clock, of its highest", _of_gpus(_clock, min), format.percent, 0.3, 1.0, of_gpus=True),
    "memory": Measure("memory taken", _memory, format.percent, 0.0, 1.0, of_gpus=True),
    "cpu": Measure("host's CPUs in use", _cpu, format.percent, 0.0, 1.0),
}
