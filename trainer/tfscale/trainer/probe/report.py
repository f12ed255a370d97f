"""What the probe tells, several times a second, to whoever listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tfscale.trainer.probe.activities import Activity
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import Step
from tfscale.trainer.probe.workers import Coordinator, Measured


class Collective(NamedTuple):
    """Cross-replica reductions entered and left so far, and when the newest was entered (Unix seconds)."""

    entered: int
    left: int
    entered_at: float | None


class Training(NamedTuple):
    """How the training goes, where Keras says so; `finite` is whether the newest loss is a number."""

    epoch: int | None = None
    global_step: int | None = None
    loss: float | None = None
    finite: bool | None = None
    learning_rate: float | None = None


class Report(NamedTuple):
    """`status` and `training` only where they have changed; `lost` counts spans that could not be kept."""

    collective: Collective
    status: Status | None = None
    training: Training | None = None
    steps: Sequence[Step] = ()
    lost: int = 0
    activities: Sequence[Activity] = ()
    workers: Sequence[Measured] = ()
    """Of a chief: what others did."""
    coordinator: Coordinator | None = None


class Sink(Protocol):
    """Takes reports in order."""

    refused: str | None
    """Why it wants no more."""

    def send(self, report: Report) -> None:
        """Take a report; never blocks."""

    def close(self, timeout: float, /) -> None:
        """Bring what was taken to its end, for at most `timeout` seconds."""
