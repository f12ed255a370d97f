"""Reports of the probe, made once a second, and the sinks that take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tfscale.core.records.probe_status import Activity, Collective, ProbeStatus
from tfscale.core.records.step_batch import Coordinator
from tfscale.core.records.training import Training
from tfscale.trainer.probe.steps.remote_workers import Measured
from tfscale.trainer.probe.steps.step import Step


class ProbeReport(NamedTuple):
    """Report of one second. `status` and `training` are None where they have not changed."""

    collective: Collective
    status: ProbeStatus | None = None
    training: Training | None = None
    steps: Sequence[Step] = ()
    lost: int = 0
    """Number of lost rows: at most as many steps are reported as lost."""
    activities: Sequence[Activity] = ()
    workers: Sequence[Measured] = ()
    """Steps of a chief's workers."""
    coordinator: Coordinator | None = None
    stages: Mapping[int, Sequence[Step]] = MappingProxyType({})
    """Steps of each stage of a pipeline."""


class Sink(Protocol):
    """Taker of reports, in order."""

    refused: str | None
    """Reason why the sink takes no more reports; None while it takes them."""

    def send(self, report: ProbeReport) -> None:
        """Take a report; never blocks."""

    def settle(self, timeout: float, /) -> None:
        """Wait until all reports are delivered, for at most `timeout` seconds."""

    def close(self, timeout: float, /) -> None:
        """Deliver all reports, for at most `timeout` seconds, and end."""
