"""Reports of the probe, made once a second, and the sinks that take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tfscale.trainer.probe.activities import Activity
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import Step
from tfscale.trainer.probe.workers import Coordinator, Measured


class Collective(NamedTuple):
    """Number of collectives entered and left so far, and when the newest was entered (Unix seconds)."""

    entered: int
    left: int
    entered_at: float | None


class Training(NamedTuple):
    """Progress of the training as Keras knows it; `finite` is whether the newest loss is a number."""

    epoch: int | None = None
    global_step: int | None = None
    loss: float | None = None
    finite: bool | None = None
    learning_rate: float | None = None


class Report(NamedTuple):
    """Report of one second. `status` and `training` are None where they have not changed."""

    collective: Collective
    status: Status | None = None
    training: Training | None = None
    steps: Sequence[Step] = ()
    lost: int = 0
    """Number of rows that could not be kept."""
    activities: Sequence[Activity] = ()
    workers: Sequence[Measured] = ()
    """Steps of a chief's workers."""
    coordinator: Coordinator | None = None


class Sink(Protocol):
    """Taker of reports, in order."""

    refused: str | None
    """Why it takes no more reports; None while it takes them."""

    def send(self, report: Report) -> None:
        """Take a report; never blocks."""

    def close(self, timeout: float, /) -> None:
        """Deliver what was taken, for at most `timeout` seconds."""
