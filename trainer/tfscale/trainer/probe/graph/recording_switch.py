"""Switch of all recording: off for good once the probe itself has failed, and off for a while where it pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _OfThread(threading.local):
    """State of the switch in one thread."""

    is_apart = False


class RecordingSwitch:
    """Switch that every recorder asks. `on_failure` is called with a failure of the probe's own."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._paused = False
        self._here = _OfThread()
        self.disabled = False
        """True once nothing is recorded any more; stamps in graphs already traced stay there."""

    @property
    def is_on(self) -> bool:
        """True while calls are recorded."""
        return not (self.disabled or self._paused or self._here.is_apart)

    @property
    def is_apart(self) -> bool:
        """True while the current thread traces a function that is no part of the training."""
        return self._here.is_apart

    def disable(self) -> None:
        """Record nothing from now on."""
        self.disabled = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in this block: functions that are traced in it have no stamps."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Record nothing that the current thread does in this block."""
        before, self._here.is_apart = self._here.is_apart, True
        try:
            yield
        finally:
            self._here.is_apart = before

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Keep a failure in this block from the program: the block is the probe's own work."""
        try:
            yield
        except Exception as error:
            self.disable()
            self._on_failure(error)
