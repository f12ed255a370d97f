"""Diagnosis: a finding as a record."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfscale.core.records.schema import Time


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding: the same object feeds the screen, the log and the report."""

    kind: str
    subject: str
    begin: Time
    end: Time | None
    severity: str
    """`info`, `warning`, `serious` or `critical`."""
    sentence: str
    evidence: dict[str, float | str | None] = field(default_factory=dict)
