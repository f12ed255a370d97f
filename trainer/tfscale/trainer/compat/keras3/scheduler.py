"""Executions of Keras 3's steps on the workers of ParameterServerStrategy, and their logs."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.keras3.worker_data import FedExecution

IN_FLIGHT = 8
"""Most executions per worker that are scheduled and not over. With more, callbacks would hear of steps long after
their end; with fewer than 2, a worker would wait for the chief between two executions."""


class PendingLogs(Mapping[str, Any], dict[str, Any]):  # type: ignore[metaclass, misc]
    """Logs of the newest step that has ended, looked up at their use.

    A just scheduled step has no logs yet; waiting for each would make the workers take turns. They are a dict, because
    Keras's TensorBoard takes nothing else for logs.
    """

    def __init__(self, scheduled: collections.deque[Any]) -> None:
        super().__init__()
        self._scheduled = scheduled

    def names(self) -> set[str]:
        """Return the names of the logs without fetching any; empty where no step has ended well."""
        return next((set(value._values) for value in self.ended() if value._values), set())

    def ended(self) -> list[Any]:
        """Return the executions that have ended, newest first."""
        return [value for value in reversed(self._scheduled.copy()) if value._status_available_event.is_set()]

    @functools.cached_property
    def _logs(self) -> dict[str, Any]:
        for value in [*self.ended(), *self._scheduled.copy()]:
            try:
                fetched: dict[str, Any] = value.fetch()
            except tf.errors.OpError:
                # The worker that holds it has gone; another failure is raised when the next step is scheduled.
                continue
            return fetched
        return {}

    def __getitem__(self, name: str) -> Any:
        return self._logs[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._logs[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)


class Scheduler:
    """Scheduler of executions of one function on the workers."""

    def __init__(self, strategy: tf.distribute.Strategy, function: Any) -> None:
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._function = function
        self._window = IN_FLIGHT * len(self._coordinator._cluster.workers)
        self._scheduled: collections.deque[Any] = collections.deque()

    def __call__(self, *args: Any) -> PendingLogs:
        while len(self._scheduled) >= self._window:
            # Only to wait: what an execution raises is raised by `schedule` or `join`. The value has to be held
            # meanwhile, because without it the end of the execution sets no event.
            oldest = self._scheduled.popleft()
            oldest._status_available_event.wait()
        self._scheduled.append(self._coordinator.schedule(self._function, args=args))
        return PendingLogs(self._scheduled)

    def unless_over(self, execution: FedExecution) -> list[Any]:
        """Return the batches of an execution. Raises StopIteration without any, once all steps have ended."""
        if not (batches := execution.batches()):
            self._coordinator.join()
            raise StopIteration
        return batches
