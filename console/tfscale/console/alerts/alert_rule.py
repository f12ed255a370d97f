"""Rule of alerts: from which severity on, and the times of cool-down, silence and escalation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Settings of alerts; times in seconds."""

    severity: str = "warning"
    """Least severity of a finding that is told."""
    cool_down: float = 300.0
    """Time after the end of a finding was told in which its next begins and ends are only counted."""
    silence: float = 300.0
    """Time without a frame of any task after which the run's silence is told."""
    escalate_after: float = 900.0
    """Time after which a finding that was told and still holds is told to the receivers of escalation."""
