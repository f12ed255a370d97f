"""Switch of all recording: off for good once the probe itself has failed, and off for a while where it pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class RecordingSwitch:
    """Switch that every recorder asks. `on_failure` is called with a failure of the probe's own."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._paused = False
        self.disabled = False
        """True once nothing is recorded any more; stamps in graphs already traced stay there."""

    @property
    def is_on(self) -> bool:
        """True while calls are recorded."""
        return not self.disabled and not self._paused

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
    def own_work(self) -> Iterator[None]:
        """Keep a failure in this block from the program: the block is the probe's own work."""
        try:
            yield
        except Exception as error:
            self.disable()
            self._on_failure(error)
