"""Collector in a thread of its own: a sample may hang, or take long, and must neither stop nor delay the agent."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import Generic, TypeVar

_logger = logging.getLogger(__name__)
_STALE = 5.0
"""Seconds by which the next sample may be late before the last sample is too old to be shown."""

Sample = TypeVar("Sample")


class CollectorThread(ABC, Generic[Sample]):
    """Newest sample of those that `_samples` yields, each `period` seconds, until it ends or raises."""

    def __init__(self, name: str, nothing: Sample, period: float) -> None:
        self._nothing = nothing
        """What `latest` returns without a sample."""
        self._period = period
        self._stop = threading.Event()
        self._latest: tuple[float, Sample] = (0.0, nothing)
        # In a copy of the context, so that its lines of the log name the same task.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; does not wait, since it may hang."""
        self._stop.set()

    def latest(self) -> Sample:
        """Return the newest sample; `nothing` before the first, or while samples are overdue."""
        at, sample = self._latest
        return sample if time.monotonic() - at < self._period + _STALE else self._nothing

    @abstractmethod
    def _samples(self) -> Generator[Sample]:
        """Yield a sample at each request; the generator is closed at the end."""

    def _run(self) -> None:
        try:
            with closing(self._samples()) as samples:
                self._keep(samples)
        except Exception as error:
            _logger.error("no more samples of %s: %r", self._thread.name, error)

    def _keep(self, samples: Generator[Sample]) -> None:
        began = time.monotonic()
        for sample in samples:
            self._latest = (time.monotonic(), sample)
            # Sampling is part of the period: what takes long is not sampled less often.
            if self._stop.wait(max(0.0, began + self._period - time.monotonic())):
                return
            began = time.monotonic()
