"""Distribution of a program by its strategy, read from TensorFlow's objects."""

from __future__ import annotations

from typing import Any

from tfscale.core.cluster.strategy import DEFAULT, LOCAL, RING, Strategy, find_strategy
from tfscale.trainer.probe.rows.spans import Distribution

_CACHE = "_tfscale_distribution"


def distribution_of(strategy: Any) -> Distribution:
    """Return how any strategy distributes, the default strategy included; each is read once."""
    distribution: Distribution | None = strategy.__dict__.get(_CACHE)
    if distribution is None:
        distribution = _read(strategy)
        object.__setattr__(strategy, _CACHE, distribution)
    return distribution


def _read(strategy: Any) -> Distribution:
    row = find_strategy(kind.__name__ for kind in type(strategy).__mro__)
    if row is DEFAULT:
        return Distribution()
    replicas: int = strategy.num_replicas_in_sync
    local_replicas = len(getattr(strategy.extended, "worker_devices", ())) or 1
    return Distribution(
        strategy=row.name if row is not None else type(strategy).__name__,
        replicas=replicas,
        local_replicas=local_replicas,
        collective=_collective(row, strategy.extended, replicas > local_replicas) if replicas > 1 else None,
    )


def _collective(row: Strategy | None, extended: Any, across_processes: bool) -> str | None:
    """Return how replicas exchange tensors, None where this is not known."""
    if not across_processes or (row is not None and row.collective is not None):
        return LOCAL
    return None if row is None else _requested_collective(extended)


def _requested_collective(extended: Any) -> str:
    """Return the `CommunicationImplementation` that the program requested, RING on CPUs: NCCL needs GPUs."""
    implementation: str = extended._communication_options.implementation.value
    return implementation if any("GPU" in device for device in extended.worker_devices) else RING
