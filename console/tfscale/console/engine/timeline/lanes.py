"""Lanes of incidents on one axis of time: one of each task or host that had some, and one of the whole cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from tfscale.console.engine.model import TimelineEntry
from tfscale.core.cluster.task import CLUSTER


@dataclass(frozen=True, slots=True)
class Span:
    """One incident in a lane: Unix seconds of its begin and end, None while it lasts; a mark begins where it ends."""

    begin: float
    end: float | None
    entry: TimelineEntry

    @property
    def is_mark(self) -> bool:
        """True for what has no length: a start, a move, a cut, a command."""
        return self.entry.diagnosis is None


@dataclass(frozen=True, slots=True)
class Lane:
    """Incidents of one task or host, or of the whole cluster, in the order of their begins."""

    name: str
    spans: tuple[Span, ...]


def lanes_of(entries: Iterable[TimelineEntry], tasks: int) -> list[Lane]:
    """Return the lanes of a timeline; what concerns more than half of the `tasks` is in the cluster's."""
    found: dict[str, dict[Hashable, Span]] = {}
    for entry in entries:
        names = _names(entry)
        for name in (CLUSTER,) if 2 * len(names) > tasks > 1 and len(names) > 1 else names:
            diagnosis = entry.diagnosis
            if diagnosis is None:
                found.setdefault(name, {})[entry.number] = Span(entry.at, entry.at, entry)
            else:
                # An end has an entry of its own, of the same begin.
                key = diagnosis.kind, diagnosis.begin
                begun = found.setdefault(name, {}).get(key)
                first = begun.entry if begun else entry
                found[name][key] = Span(diagnosis.begin, diagnosis.end, first)
    lanes = [Lane(name, tuple(sorted(spans.values(), key=lambda span: span.begin))) for name, spans in found.items()]
    return sorted(lanes, key=lambda lane: (lane.name != CLUSTER, lane.spans[0].begin, lane.name))


def _names(entry: TimelineEntry) -> tuple[str, ...]:
    if entry.diagnosis is not None:
        subjects = entry.diagnosis.together or (entry.diagnosis.subject,)
        return tuple(dict.fromkeys(subject.partition("/")[0] for subject in subjects))
    return tuple(map(str, entry.tasks)) or (entry.subject,)
