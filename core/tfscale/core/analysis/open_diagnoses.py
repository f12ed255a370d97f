"""The memory of open diagnoses: the rules return only what holds now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.findings import by_severity
from tfscale.core.records import Diagnosis


@dataclass(slots=True)
class OpenDiagnoses:
    """The open diagnoses by kind and subject (crashes by time as well: a task can crash again)."""

    _open: dict[tuple[str, str, float], Diagnosis] = field(default_factory=dict)

    def update(self, current: Iterable[Diagnosis], now: float) -> tuple[Diagnosis, ...]:
        """Return the diagnoses that hold now, each with the begin that it was opened with, and those that end at `now`.

        The most severe come first.
        """
        held: dict[tuple[str, str, float], Diagnosis] = {}
        for diagnosis in current:
            key = (diagnosis.kind, diagnosis.subject, diagnosis.begin if diagnosis.kind == "crash" else 0.0)
            opened = self._open.get(key)
            held[key] = replace(diagnosis, begin=opened.begin) if opened else diagnosis
        ended = [replace(before, end=now) for key, before in self._open.items() if key not in held]
        self._open = held
        return tuple(sorted([*held.values(), *ended], key=by_severity))
