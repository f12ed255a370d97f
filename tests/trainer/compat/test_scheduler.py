"""Executions that the chief of a ParameterServerStrategy schedules before it waits, and their logs."""

from __future__ import annotations

import collections
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


class Value:
    """Stand-in for TensorFlow's RemoteValue, to which a closure has a weak reference alone."""

    def __init__(self) -> None:
        self._status_available_event = threading.Event()


class Coordinator:
    """Coordinator of one worker, which takes 20 ms for each."""

    def __init__(self, _strategy: Any) -> None:
        self._cluster = SimpleNamespace(workers=[None])
        self.scheduled = self.finished = 0

    def schedule(self, _function: Any, args: Any) -> Value:
        assert len(args) == 2
        value = Value()
        known = weakref.ref(value)
        self.scheduled += 1
        threading.Timer(0.02 * (self.scheduled - self.finished), self._finish, (known,)).start()
        return value

    def _finish(self, known: weakref.ref[Value]) -> None:
        self.finished += 1
        if (value := known()) is not None:
            value._status_available_event.set()


def test_a_full_window_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf
    from tfscale.trainer.compat.keras3 import scheduler

    monkeypatch.setattr(tf.distribute.coordinator, "ClusterCoordinator", Coordinator)
    of_one = scheduler.Scheduler(None, None)
    ahead = []

    def schedule() -> None:
        for _ in range(3 * scheduler.IN_FLIGHT):
            of_one(None, 1)
            ahead.append(of_one._coordinator.scheduled - of_one._coordinator.finished)

    thread = threading.Thread(target=schedule, daemon=True)
    thread.start()
    thread.join(20)
    assert len(ahead) == 3 * scheduler.IN_FLIGHT
    assert max(ahead) <= scheduler.IN_FLIGHT


def test_logs_that_are_looked_up_are_a_dict_as_keras_wants_them() -> None:
    from tfscale.trainer.compat.keras3.scheduler import PendingLogs

    value: Any = SimpleNamespace(_status_available_event=threading.Event(), fetch=lambda: {"loss": 0.5})
    logs = PendingLogs(collections.deque([value]))
    assert isinstance(logs, dict)
    logs["rate"] = 0.1
    assert {**logs} == dict(logs.items()) == {"loss": 0.5, "rate": 0.1}
    assert (logs.get("loss"), "mae" in logs, len(logs)) == (0.5, False, 2)
