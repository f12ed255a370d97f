"""Messages between probe and agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfscale.core.records.profile import ProfileOrder, ProfileReport
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report.encoding import decoded
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.step_columns import step_batches
from tfscale.trainer.probe.report.task_report import TaskReport


@dataclass(frozen=True, slots=True)
class AgentReply:
    """Reply of the agent: exactly one of the four fields is set."""

    accepted: bool
    refused: str | None
    profile: ProfileOrder | None
    waits: str | None


def serialised(identity: Identity, report: ProbeReport) -> bytes:
    """Return the bytes of the report's message."""
    batches = step_batches(identity.task, identity.generation, identity.attempt, report, identity.part)
    return TaskReport(
        probe=report.status,
        collective=report.collective,
        steps=tuple(batches),
        training=report.training,
        activities=tuple(report.activities),
        coordinator=report.coordinator,
    ).message


def profile_report(record: ProfileReport) -> bytes:
    """Return the message about the stage of an ordered profile."""
    return TaskReport(profile=record).message


def reply(data: bytes) -> AgentReply:
    """Return the reply in these bytes. Raises WireError."""
    fields = decoded("ReportReply", data)
    return AgentReply(
        accepted="accepted" in fields,
        refused=fields.get("refused"),
        profile=_order(fields["profile"]) if "profile" in fields else None,
        waits=fields.get("waits"),
    )


def _order(fields: Mapping[str, Any]) -> ProfileOrder:
    return ProfileOrder(fields.get("number", 0), fields.get("seconds", 0.0), fields.get("folder", ""))
