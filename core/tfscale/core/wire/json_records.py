"""Records as JSON, for exports, recordings and scripts; docs/reference/schema.md explains every field.

Encoding follows the fields of the records, so that one schema serves all. An unknown value is null: None, and NaN in
the columns of a `StepBatch`. Durations in columns are rounded to nanoseconds.
"""

from __future__ import annotations

import math
import types
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tfscale.core.errors import TfscaleError
from tfscale.core.records.frame import Frame
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.validation import check_frame

Json = dict[str, Any]
Record = TypeVar("Record")

_INTEGER_COLUMNS = {"sequence", "global_step"}


class SchemaError(TfscaleError):
    """A document that does not hold a record of the expected type."""


def frame_to_json(task: str, frame: Frame) -> Json:
    """Return the line of one frame: `at` becomes `time`; the task's name and the schema's version are added."""
    document = encode(frame)
    return {"type": "frame", "schema": SCHEMA_VERSION, "time": document.pop("at"), "task": task, **document}


def frame_from_json(document: Mapping[str, Any]) -> tuple[str, Frame]:
    """Return the task and the frame of a line of type `frame`. Raises SchemaError, also for a newer schema."""
    _check_is_frame(document)
    if not isinstance(document.get("schema"), int) or document["schema"] > SCHEMA_VERSION:
        raise SchemaError(
            f"frame of schema {document.get('schema')}: this tfscale reads up to {SCHEMA_VERSION}, update it"
        )
    frame = decode(Frame, {**document, "at": document["time"]})
    try:
        check_frame(frame)
    except ValueError as error:
        raise SchemaError(f"not a frame: {error}") from None
    return str(document["task"]), frame


def encode(record: Any) -> Any:
    """Return a record, or a field's value, in types that `json.dumps` accepts."""
    if isinstance(record, StepBatch):
        return {name: _encode_field(name, getattr(record, name)) for name in _hints(StepBatch)}
    if is_dataclass(record) and not isinstance(record, type):
        # The fields alone: a frame that has arrived has more slots, which are no part of the record.
        return {field.name: encode(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, float):
        return record if math.isfinite(record) else None
    if isinstance(record, Enum):
        return record.value
    if isinstance(record, Mapping):
        return {str(key): encode(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [encode(value) for value in record]
    return record


def decode(kind: type[Record], document: Mapping[str, Any]) -> Record:
    """Return the record of this kind in a parsed JSON object; unknown keys are ignored. Raises SchemaError."""
    try:
        hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]  # mypy takes a class for unhashable
        present = {name: hint for name, hint in hints.items() if name in document}
        return kind(**{name: _decode(name, hint, document[name]) for name, hint in present.items()})
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise SchemaError(f"not a {kind.__name__}: {error}") from None


def _check_is_frame(document: Mapping[str, Any]) -> None:
    if document.get("type") != "frame":
        raise SchemaError(f"not a frame: type is {document.get('type')!r}")
    if not {"task", "time"} <= document.keys():
        raise SchemaError("not a frame: task or time is missing")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _encode_field(name: str, value: Any) -> Any:
    if name in _INTEGER_COLUMNS:
        return list(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [round(number, 9) if math.isfinite(number) else None for number in value]
    return encode(value)


def _decode(name: str, hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        present = next(option for option in get_args(hint) if option is not type(None))
        return None if value is None else _decode(name, present, value)
    if origin is Sequence:
        return _decode_column(name, value)
    if origin is tuple:
        return tuple(_decode(name, get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return float(value) if hint is float else value


def _decode_column(name: str, values: Sequence[Any]) -> array[Any]:
    if name in _INTEGER_COLUMNS:
        return array("Q", values)
    return array("d" if name == "end" else "f", [math.nan if value is None else value for value in values])
