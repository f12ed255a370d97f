"""Logs of steps on workers of ParameterServerStrategy, read without holding up the probe's thread.

A worker or a server that is stopped answers no read, and then the thread has to go on and say so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from tfscale.core.records.training import Training
from tfscale.trainer.compat.keras3.scheduler import PendingLogs

_PATIENCE = 0.2
"""Seconds that a read may take before an earlier result is used in its place. A worker in reach answers within
milliseconds; a longer wait would hold back the report of the second."""


class RemoteReader:
    """Reader of a training's state, in a thread of its own; one read at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._newest: Training | None = None

    def read(self, make: Callable[[], Training]) -> Training | None:
        """Return the newest result of `make`, an earlier one while this call lasts; None before the first."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._read, args=(make,), name="tfscale-progress", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # Python ends, and starts no more threads
                return self._newest
        self._thread.join(_PATIENCE)
        return self._newest

    def _read(self, make: Callable[[], Training]) -> None:
        # The worker has gone: what was known stays.
        with contextlib.suppress(tf.errors.OpError):
            self._newest = make()


def is_remote(logs: Any) -> bool:
    """Return whether these logs are on a worker."""
    return isinstance(logs, PendingLogs | tf.distribute.experimental.coordinator.RemoteValue)


def fetched(logs: Any) -> Mapping[str, Any]:
    """Return logs by name, from the newest step that has ended; empty before the first."""
    if isinstance(logs, PendingLogs):
        logs = next(iter(logs.ended()), None)
    if isinstance(logs, tf.distribute.experimental.coordinator.RemoteValue):
        logs = logs.get()
    return logs if isinstance(logs, dict) else {}
