"""Another agent as a partner of recovery."""

from __future__ import annotations

from typing import Protocol

from tfscale.agent.cluster.failure_report import FailureReport, Verdict
from tfscale.agent.cluster.gang import GangMember
from tfscale.agent.recovery.hang_stacks import Stacked


class RecoveryPeer(GangMember, Stacked, Protocol):
    """A peer that may be the acting lead, and that can be asked for its stacks and its pause."""

    async def pause(self) -> str:
        """Return why the task makes no step though it does not hang, empty without a reason or an answer."""

    async def report_failure(self, report: FailureReport, patience: float) -> Verdict | None:
        """Return the verdict of the peer's agent, None without an answer. Raises GangError where it refuses."""
