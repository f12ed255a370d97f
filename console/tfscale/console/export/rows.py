"""Documents of the headless console: JSON objects for lines, flat rows for tables (docs/reference/schema.md)."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.analysis.stragglers.straggler_words import looks_slow
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    PolicyTold,
)
from tfscale.console.engine.model import TimelineEntry
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.version import installed_version
from tfscale.core.wire.json_records import Json, encode, frame_to_json

PARTS = ("events", "frames", "steps")
"""Parts that `--only` selects; a table holds a single part."""
Column = tuple[str, type]
"""Name, and one of str, int, float, bool."""


def header(spec: ClusterSpec, at: float) -> Json:
    """Return the first line of every file."""
    lead, tasks = str(spec.lead), [str(task) for task in spec.tasks]
    facts = {"version": installed_version(), "run": spec.name, "lead": lead, "tasks": tasks}
    return _line("header", at, **facts, cluster=json.loads(spec.to_json()))


def _line(name: str, at: float, /, **rest: Any) -> Json:
    """Return a line: type, version of the schema, Unix seconds, and the `rest` of its fields."""
    return {"type": name, "schema": SCHEMA_VERSION, "time": at, **rest}


def diagnosis_line(diagnosis: Diagnosis, at: float) -> Json:
    """Return the line of a diagnosis that began, changed or ended; `at` is the time of the change."""
    return _line("diagnosis", at, **diagnosis_fields(diagnosis))


def diagnosis_fields(diagnosis: Diagnosis) -> Json:
    """Return the fields of a diagnosis with its advice: the first thing to do, None where its sentence says it."""
    return {**encode(diagnosis), "advice": first_step(diagnosis)}


def suspect_line(suspect: Suspect | None, at: float) -> Json:
    """Return the line about the suspect from `at` on; None: no task looks slow."""
    if suspect is None:
        return _line("suspect", at, subject=None, begin=None, sentence=None)
    return _line("suspect", at, subject=suspect.subject, begin=suspect.begin, sentence=looks_slow(suspect, at))


def event_line(event: Event) -> Json | None:
    """Return the line of a connection's, a command's or a policy's event; None for other events."""
    match event:
        case LinkChanged():
            return _line("link", event.at, task=str(event.task), state=event.state.value, reason=event.reason)
        case PolicyTold():
            return _line("policy", event.at, task=str(event.task), message=event.message)
        case CommandProgressed():
            fields = {**encode(event), "tasks": [str(task) for task in event.tasks]}
            del fields["at"]
            return _line("command", event.at, **fields)
    return None


def timeline_line(entry: TimelineEntry) -> Json:
    """Return the line of an event as the screen shows it: one incident, or the end of one."""
    fields = {"kind": entry.kind, "subject": entry.subject, "severity": entry.severity, "text": entry.text}
    advice = first_step(entry.diagnosis) if entry.diagnosis is not None and entry.diagnosis.end is None else None
    return _line("event", entry.at, **fields, advice=advice)


class AgentLines:
    """Lines of the agents' descriptions. A thousand agents name the same cluster: only what is new is written."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._told = {"cluster": spec.to_json(), "placement": ""}
        """Cluster and placement that were written last, as JSON; those of the header at first."""

    def line(self, event: AgentDescribed) -> Json:
        """Return the line of an agent; its cluster and placement are None where they are as before."""
        fields: Json = {"task": str(event.task), **encode(event.description)}
        for name, told in self._told.items():
            text = fields[name]
            fields[name] = None if text in ("", told) else _parsed(text)
            self._told[name] = text or told
        return _line("agent", event.at, **fields)


def _parsed(text: str) -> Any:
    """Return JSON of another program parsed, or as its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def task_line(event: FrameArrived) -> Json:
    """Return the line of a task's state."""
    return _line("task", event.frame.at, task=str(event.task), **encode(event.frame.status))


def frame_line(event: FrameArrived) -> Json:
    return frame_to_json(str(event.task), event.frame)


def step_lines(event: FrameArrived) -> Iterator[Json]:
    """Yield one line a step, with the fields of STEP_COLUMNS."""
    for row in step_rows(event):
        yield {"type": "step", "schema": SCHEMA_VERSION, **row}


STEP_COLUMNS: tuple[Column, ...] = (
    ("generation", int),
    ("attempt", int),
    ("part", int),
    ("reporter", str),
    ("subject", str),
    ("sequence", int),
    ("global_step", int),
    ("end", float),
    *((phase, float) for phase in PHASES),
    ("pull", float),
)
_IDENTITY = 5
"""Number of the first columns, which are the same in all rows of a batch."""


def step_rows(event: FrameArrived) -> Iterator[Json]:
    """Yield one row a step; None where a column is unknown."""
    for batch in event.frame.steps:
        columns = [_column(batch, name) for name, _ in STEP_COLUMNS[_IDENTITY:]]
        identity = {name: getattr(batch, name) for name, _ in STEP_COLUMNS[:_IDENTITY]}
        names = [name for name, _ in STEP_COLUMNS[_IDENTITY:]]
        for values in zip(*columns, strict=True):
            yield {**identity, **dict(zip(names, values, strict=True))}


def _column(batch: StepBatch, name: str) -> Sequence[Any]:
    values = getattr(batch, name)
    if not len(values):
        return [None] * len(batch.sequence)
    if getattr(values, "typecode", "d") in "fd":
        return [round(value, 9) if math.isfinite(value) else None for value in values]
    return list(values)


EVENT_COLUMNS: tuple[Column, ...] = (
    ("type", str),
    ("time", float),
    ("subject", str),
    ("kind", str),
    ("begin", float),
    ("end", float),
    ("severity", str),
    ("text", str),
    ("evidence", str),
)


def event_row(line: Json) -> Json:
    """Return an event's line as a row: `kind` is a diagnosis's kind, a link's or task's state, a command's stage."""
    subject = line.get("subject") or line.get("task") or ", ".join(line.get("tasks", ()))
    return {
        "type": line["type"],
        "time": line["time"],
        "subject": subject,
        "kind": line.get("kind") or line.get("state") or line.get("stage"),
        "begin": line.get("begin"),
        "end": line.get("end"),
        "severity": line.get("severity"),
        "text": line.get("sentence") or line.get("reason") or line.get("message"),
        "evidence": json.dumps(line["evidence"]) if "evidence" in line else None,
    }


def frame_row(event: FrameArrived) -> Json:
    """Return a frame without its steps as a row: nested fields joined by `_`, repeated fields as JSON."""
    return {"task": str(event.task), "time": event.frame.at, **dict(_flat("", event.frame, _FRAME))}


@dataclass(frozen=True, slots=True)
class _Shape:
    """Columns of one field of a record: a nested record's, or a single column of type `kind`."""

    name: str
    nested: tuple[_Shape, ...] | None
    kind: type


def _shapes(record: type) -> tuple[_Shape, ...]:
    hints = get_type_hints(record)
    names = [column.name for column in fields(record) if column.name not in ("at", "steps")]
    return tuple(_shape(name, hints[name]) for name in names)


def _shape(name: str, hint: Any) -> _Shape:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(arm for arm in get_args(hint) if arm is not type(None))
    if is_dataclass(hint) and isinstance(hint, type):
        return _Shape(name, _shapes(hint), str)
    return _Shape(name, None, hint if hint in (int, float, bool) else str)


_FRAME = _shapes(Frame)


def _columns(prefix: str, shapes: tuple[_Shape, ...]) -> Iterator[Column]:
    for shape in shapes:
        if shape.nested is None:
            yield prefix + shape.name, shape.kind
        else:
            yield from _columns(f"{prefix}{shape.name}_", shape.nested)


FRAME_COLUMNS: tuple[Column, ...] = (("task", str), ("time", float), *_columns("", _FRAME))


def _flat(prefix: str, record: Any, shapes: tuple[_Shape, ...]) -> Iterator[tuple[str, Any]]:
    for shape in shapes:
        value = None if record is None else getattr(record, shape.name)
        if shape.nested is not None:
            yield from _flat(f"{prefix}{shape.name}_", value, shape.nested)
        else:
            yield prefix + shape.name, _cell(value)


def _cell(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple | Mapping):
        return json.dumps(encode(value), separators=(",", ":"))
    return value


COLUMNS = {"events": EVENT_COLUMNS, "frames": FRAME_COLUMNS, "steps": STEP_COLUMNS}
