"""Numbers of one task from its newest frame and summary, for columns and heat maps; None is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tfscale.console.engine.model import TaskView
from tfscale.core.records.host_sample import Disk, GpuSample, HostSample
from tfscale.core.records.training import training_numbers


def summary_value(view: TaskView, name: str) -> float | None:
    """Return one attribute of the task's step summary."""
    return getattr(view.summary, name) if view.summary else None


def training_number(view: TaskView, name: str) -> float | None:
    """Return one number that the training reports."""
    return training_numbers(view.frame.training).get(name) if view.frame else None


def log_names(views: Iterable[TaskView]) -> tuple[str, ...]:
    """Return the names of all numbers that Keras logs."""
    trainings = (view.frame.training for view in views if view.frame and view.frame.training)
    return tuple(dict.fromkeys(log.name for training in trainings for log in training.logs))


def newest_step(view: TaskView) -> int | None:
    """Return the newest step by the program's own number, else by the number since the attempt began."""
    summary = view.summary
    if summary is None:
        return None
    return summary.step if summary.global_step is None else summary.global_step


def gpus_of(view: TaskView) -> tuple[GpuSample, ...]:
    return view.frame.gpus if view.frame else ()


def over_gpus(
    gpus: Iterable[GpuSample],
    read: Callable[[GpuSample], float | None],
    combine: Callable[[Sequence[float]], float],
) -> float | None:
    """Return `combine` of the values that `read` returns for the GPUs, without None."""
    values = [value for gpu in gpus if (value := read(gpu)) is not None]
    return combine(values) if values else None


def host_of(view: TaskView) -> HostSample | None:
    return view.frame.host if view.frame else None


def host_cpu(view: TaskView) -> float | None:
    """Return the share of the host's CPUs in use, 0 to 1."""
    host = host_of(view)
    return host.cpu if host else None


def disk_of(view: TaskView) -> Disk | None:
    """Return the disk that holds the task's working folder."""
    host = host_of(view)
    return host.disk if host else None


def traffic(host: HostSample | None) -> tuple[float | None, float | None]:
    """Return bytes a second received and sent over all interfaces; None for each where there is no interface."""
    if host is None or not host.interfaces:
        return None, None
    return sum(link.received for link in host.interfaces), sum(link.sent for link in host.interfaces)
