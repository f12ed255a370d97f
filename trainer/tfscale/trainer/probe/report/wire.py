"""Protobuf messages between probe and agent."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from tfscale.core.records.probe_status import Activity, Collective, ProbeStatus
from tfscale.core.records.profile import ProfileOrder, ProfileReport
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import PHASES, Coordinator, StepBatch
from tfscale.core.records.training import Training
from tfscale.core.wire.convert import message_of, parsed, record_of
from tfscale.core.wire.fields import consecutive
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.step_columns import step_batches
from tfscale.trainer.probe.steps.usual_steps import UsualSteps
from tfscale.v1 import report_pb2, telemetry_pb2


@dataclass(frozen=True, slots=True)
class AgentReply:
    """Reply of the agent: exactly one of the four fields is set."""

    accepted: bool
    refused: str | None
    profile: ProfileOrder | None
    waits: str | None


@dataclass(frozen=True, slots=True)
class _TaskReport:
    probe: ProbeStatus | None
    collective: Collective
    training: Training | None
    activities: tuple[Activity, ...]
    coordinator: Coordinator | None
    steps: tuple[StepBatch, ...]


def message(identity: Identity, report: ProbeReport) -> report_pb2.TaskReport:
    """Return the report's message."""
    batches = step_batches(identity.task, identity.generation, identity.attempt, report, identity.part)
    activities = tuple(report.activities)
    others = report.status, report.collective, report.training, activities, report.coordinator
    return message_of(report_pb2.TaskReport, _TaskReport(*others, tuple(batches)))


def serialised(identity: Identity, report: ProbeReport) -> bytes:
    """Return the bytes of the report's message.

    Columns of usual steps are copied, which takes a third of the CPU of converting number by number. Messages that
    follow each other are read as one message with the fields of both.
    """
    steps = report.steps
    if not isinstance(steps, UsualSteps):
        return message(identity, report).SerializeToString()
    packed = report_pb2.PackedReport(steps=[_packed(identity, steps, report.lost)])
    return message(identity, report._replace(steps=(), lost=0)).SerializeToString() + packed.SerializeToString()


def _packed(identity: Identity, steps: UsualSteps, lost: int) -> telemetry_pb2.PackedSteps:
    # A phase is unknown in all steps or in none.
    phases: dict[str, Any] = {
        phase: seconds.tobytes()
        for phase, seconds, first in zip(PHASES, steps.phases.astype("<f4"), steps.phases[:, 0].tolist(), strict=True)
        if not math.isnan(first)
    }
    return telemetry_pb2.PackedSteps(
        generation=identity.generation,
        attempt=identity.attempt,
        reporter=identity.task,
        subject=identity.task,
        sequence=consecutive(steps.first, len(steps)),
        global_step=b"" if steps.global_step is None else consecutive(steps.global_step.start, len(steps)),
        end=steps.end.astype("<f8").tobytes(),
        lost=lost,
        part=identity.part,
        **phases,
    )


def steps_in(message: bytes) -> int:
    """Return the number of steps that would be lost with this report."""
    batches = parsed(report_pb2.TaskReport, message).steps
    return sum(len(batch.sequence) + batch.lost for batch in batches)


def with_lost(message: bytes, lost: int) -> bytes | None:
    """Return the report with the number of steps lost before it, None where it has no steps."""
    report = parsed(report_pb2.TaskReport, message)
    if not report.steps:
        return None
    report.steps[0].lost += lost
    return report.SerializeToString()


def hello(identity: Identity, stack_signal: int | None, probe: ProbeStatus | None, trains: bool) -> bytes:
    """Return the first report on a connection."""
    hello = report_pb2.Hello(
        schema_version=SCHEMA_VERSION,
        task=identity.task,
        generation=identity.generation,
        attempt=identity.attempt,
        pid=os.getpid(),
        stack_signal=stack_signal,
        trains=trains,
    )
    status = None if probe is None else message_of(telemetry_pb2.ProbeStatus, probe)
    return report_pb2.TaskReport(hello=hello, probe=status).SerializeToString()


def profile_report(record: ProfileReport) -> bytes:
    """Return the message about the stage of an ordered profile."""
    return report_pb2.TaskReport(profile=message_of(report_pb2.ProfileReport, record)).SerializeToString()


def reply(data: bytes) -> AgentReply:
    """Return the reply in these bytes. Raises WireError."""
    message = parsed(report_pb2.ReportReply, data)
    return AgentReply(
        accepted=message.HasField("accepted"),
        refused=message.refused if message.HasField("refused") else None,
        profile=record_of(ProfileOrder, message.profile) if message.HasField("profile") else None,
        waits=message.waits if message.HasField("waits") else None,
    )
