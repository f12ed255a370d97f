"""Past of a run for which another console was there: its events, and the figures of its last hour."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfscale.console.engine.model import TimelineEntry
from tfscale.console.history.cluster_series import FIGURES
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description
from tfscale.core.text import printable
from tfscale.core.validation import is_moment
from tfscale.core.wire.json_records import SchemaError, decode, encode

VERSION = 1
"""Version of the document; rises when a reader of the older would misread the newer."""
_DIGITS = 5
"""Significant digits of a figure, more than a strip of dots shows."""

_WORDS = ("severity", "subject", "text", "kind")
"""Fields of an event that are text."""


class PastError(UsageError):
    """Error for a document that holds no past of a run."""


@dataclass(frozen=True, slots=True)
class Past:
    """Past of one run; `figures` are those of `FIGURES` by the Unix second, NaN unknown."""

    agents: Mapping[str, tuple[int, float]]
    """Newest agent of each task, by its process: who is heard tells whether it is the same run."""
    entries: tuple[TimelineEntry, ...] = ()
    figures: Sequence[tuple[int, Sequence[float]]] = ()
    open: frozenset[tuple[str, str]] = frozenset()
    """Kind and subject of each diagnosis whose begin was told, and whose end was not."""

    def is_of(self, task: Task, agent: Description) -> bool:
        """Decide whether an agent is one of those of this past."""
        return self.agents.get(str(task)) == (agent.pid, agent.started)


def past_json(past: Past) -> str:
    """Return the document of a past, of which `parse_past` is the reverse."""
    document = {
        "version": VERSION,
        "agents": {task: list(agent) for task, agent in past.agents.items()},
        "entries": [_entry_json(entry) for entry in past.entries],
        "figures": [[second, *map(_rounded, figures)] for second, figures in past.figures],
        "open": sorted(map(list, past.open)),
    }
    return json.dumps(document, ensure_ascii=False)


def parse_past(text: str, where: str) -> Past:
    """Return the past in a document. Raises PastError, whose message begins with `where`."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise PastError(f"{where}: of version {document['version']}, this tfscale reads {VERSION}")
        return Past(
            {str(task): (int(pid), float(started)) for task, (pid, started) in document["agents"].items()},
            tuple(map(_entry, document["entries"])),
            [(int(second), [math.nan if each is None else float(each) for each in figures[: len(FIGURES)]])
             for second, *figures in document["figures"]],
            frozenset((str(kind), str(subject)) for kind, subject in document["open"]),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, SchemaError, RecursionError):
        raise PastError(f"{where}: damaged: it holds no past of a run") from None


def _entry_json(entry: TimelineEntry) -> dict[str, Any]:
    words = {name: getattr(entry, name) for name in _WORDS}
    told = None if entry.diagnosis is None else encode(entry.diagnosis)
    return {"at": entry.at, **words, "tasks": [*map(str, entry.tasks)], "diagnosis": told}


def _entry(document: Mapping[str, Any]) -> TimelineEntry:
    at, told = float(document["at"]), document["diagnosis"]
    if not is_moment(at):
        raise ValueError(f"an event at {at}")
    severity, subject, words, kind = (printable(str(document[name])) for name in _WORDS)
    diagnosis = None if told is None else _diagnosis(told)
    tasks = tuple(map(Task.parse, document["tasks"]))
    return TimelineEntry(at, severity, subject, words, kind, diagnosis, tasks=tasks)


def _diagnosis(document: Mapping[str, Any]) -> Diagnosis:
    diagnosis = decode(Diagnosis, document)
    evidence = {name: tuple(told) if isinstance(told, list) else told for name, told in diagnosis.evidence.items()}
    return replace(diagnosis, evidence=evidence)


def _rounded(figure: float) -> float | None:
    return float(f"{figure:.{_DIGITS}g}") if math.isfinite(figure) else None
