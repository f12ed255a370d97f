"""Values of workers, some of which never come."""

from __future__ import annotations

import threading

import pytest

pytestmark = pytest.mark.tensorflow


class Value:
    """Value of a worker that is there once `set` is called, or an error."""

    def __init__(self, value: tuple[int, ...] | Exception) -> None:
        self._value = value
        self._there = threading.Event()
        self.set = self._there.set

    def get(self) -> tuple[int, ...]:
        self._there.wait()
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def test_values_come_in_the_order_in_which_they_are_there_and_an_error_ends_the_wait() -> None:
    from tfscale.trainer.programs.standalone.backup_workers import Arrivals

    arrivals, slow, fast = Arrivals(), Value((0, 5)), Value((1, 6))
    never, lost = Value((2, 7)), Value(ConnectionError("the server is gone"))
    for value in (slow, fast, never, lost):
        arrivals.expect(3, value)
    fast.set()
    assert arrivals.next() == (3, 1, 6)
    slow.set()
    assert arrivals.next() == (3, 0, 5)
    lost.set()
    with pytest.raises(ConnectionError, match="the server is gone"):
        arrivals.next()
