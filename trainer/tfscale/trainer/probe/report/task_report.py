"""Message of a report as a record, and the first report of a process; needs the standard library alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tfscale.core.records.hello import Hello
from tfscale.core.records.probe_status import Activity, Collective, ProbeStatus
from tfscale.core.records.profile import ProfileReport
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import Coordinator, StepBatch
from tfscale.core.records.training import Training
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report.encoding import encoded


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Report as it is sent; None and empty where it has nothing new."""

    hello: Hello | None = None
    probe: ProbeStatus | None = None
    collective: Collective | None = None
    steps: tuple[StepBatch, ...] = ()
    training: Training | None = None
    activities: tuple[Activity, ...] = ()
    coordinator: Coordinator | None = None
    profile: ProfileReport | None = None

    @property
    def message(self) -> bytes:
        """Bytes of the report on the wire."""
        return encoded("TaskReport", self)


def hello(identity: Identity, stack_signal: int | None, probe: ProbeStatus | None, trains: bool) -> bytes:
    """Return the first report on a connection."""
    who = identity.task, identity.generation, identity.attempt
    return TaskReport(Hello(SCHEMA_VERSION, *who, os.getpid(), stack_signal, trains), probe).message
