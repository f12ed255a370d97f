"""Remembers which diagnoses are open, so that the rules need only say what holds now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.findings import by_severity
from tfscale.core.records import Diagnosis


@dataclass(slots=True)
class Ledger:
    """Open diagnoses by kind and subject (crashes also by time: a task can crash again)."""

    _open: dict[tuple[str, str, float], Diagnosis] = field(default_factory=dict)

    def update(self, holding: Iterable[Diagnosis], now: float) -> tuple[Diagnosis, ...]:
        """All that hold now, each with the begin it was opened with, and those that ended; most severe first."""
        current: dict[tuple[str, str, float], Diagnosis] = {}
        for diagnosis in holding:
            key = (diagnosis.kind, diagnosis.subject, diagnosis.begin if diagnosis.kind == "crash" else 0.0)
            opened = self._open.get(key)
            current[key] = replace(diagnosis, begin=opened.begin) if opened else diagnosis
        ended = [replace(old, end=now) for key, old in self._open.items() if key not in current]
        self._open = current
        return tuple(sorted([*current.values(), *ended], key=by_severity))
