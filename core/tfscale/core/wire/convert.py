"""Records to protobuf messages and back, by the names of their fields.

A record and its message (protos/tfscale/v1) have the same fields under the same names, so a new field is carried once
both have it. None is an absent field. A member of an enum is named as protobuf's style guide asks: `TaskState.RUNNING`
is `TASK_STATE_RUNNING`.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from tfscale.core.errors import UsageError
from tfscale.core.validation import is_moment
from tfscale.core.wire.fields import WireError

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Convert = Callable[[Any], Any]


@dataclass(frozen=True, eq=False, slots=True)
class Caution:
    """Treatment of values that only a faulty or a newer program sends."""

    text: Convert | None = None
    """Function applied to every text."""
    only_plausible: bool = False
    """True to read optional numbers that are not finite, and optional times that are not a date, as None."""
    newer: Mapping[type[Enum], Enum] = field(default_factory=dict)
    """Member that stands for all members of a newer version."""


_TRUSTING = Caution()


def parsed(kind: type[M], data: bytes) -> M:
    """Return the message in these bytes. Raises WireError where there is none."""
    return read_by(kind.FromString, data)


def read_by(read: Callable[[bytes], M], data: bytes) -> M:
    """Return the result of a reader of these bytes. Raises WireError where the bytes are no such message."""
    try:
        return read(data)
    except DecodeError as error:
        raise WireError(str(error)) from None


def message_of(kind: type[M], record: Any) -> M:
    """Return the message of this kind that has the fields of the record."""
    values = {}
    for name, convert in _writers(kind, type(record)):  # type: ignore[arg-type]  # mypy takes a class for unhashable
        value = getattr(record, name)
        values[name] = value if convert is None or value is None else convert(value)
    return kind(**values)


def record_of(kind: type[R], message: Message, caution: Caution = _TRUSTING) -> R:
    """Return the record of type `kind` with the fields of the message.

    Raises WireError for a member of an enum that this version does not know, unless `caution` has another for it, and
    for a text that is no name of a task.
    """
    readers = _readers(kind, type(message), caution)  # type: ignore[arg-type]  # mypy takes a class for unhashable
    return kind(*[read(message) for read in readers])


@cache
def _writers(kind: type[Message], record: type) -> tuple[tuple[str, Convert | None], ...]:
    hints = get_type_hints(record)
    return tuple((column.name, _writer(kind, column.name, hints[column.name])) for column in fields(record))


def _writer(kind: type[Message], name: str, hint: Any) -> Convert | None:
    descriptor, hint = kind.DESCRIPTOR.fields_by_name[name], _present(hint)
    if get_origin(hint) is tuple:
        convert = _value_writer(descriptor, get_args(hint)[0])
        return convert and partial(_convert_all, convert)
    return _value_writer(descriptor, hint)


def _value_writer(descriptor: Any, hint: Any) -> Convert | None:
    if descriptor.message_type is not None:
        return partial(message_of, GetMessageClass(descriptor.message_type))
    if descriptor.enum_type is not None:
        return _numbers(hint, descriptor.enum_type).__getitem__
    if hint is str:
        return _encodable
    # A task, for example, has a name on the wire.
    return None if hint in (int, float, bool, bytes) or get_origin(hint) is Sequence else str


def _encodable(text: str) -> str:
    r"""Return a text that can be sent: bytes that are not UTF-8 are shown as `\udcff`."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _convert_all(convert: Convert, values: Sequence[Any]) -> list[Any]:
    return [convert(value) for value in values]


@cache
def _readers(kind: type, message: type[Message], caution: Caution) -> tuple[Convert, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_reader(message, column.name, hints[column.name], caution) for column in fields(kind))


def _reader(message: type[Message], name: str, hint: Any, caution: Caution) -> Convert:
    descriptor, hint = message.DESCRIPTOR.fields_by_name[name], _present(hint)
    if get_origin(hint) is tuple:
        return partial(_read_all, name, _value_reader(descriptor, get_args(hint)[0], caution))
    convert = _value_reader(descriptor, hint, caution)
    if not descriptor.has_presence:
        return partial(_read, name, convert) if convert else attrgetter(name)
    if caution.only_plausible and _bare(hint) is float:
        return partial(_read_plausible, name, math.isfinite if hint is float else is_moment)
    return partial(_read_optional, name, convert) if convert else partial(_read_scalar, name)


def _value_reader(descriptor: Any, hint: Any, caution: Caution) -> Convert | None:
    if descriptor.message_type is not None:
        return partial(record_of, hint, caution=caution)
    if descriptor.enum_type is not None:
        members = {number: member for member, number in _numbers(hint, descriptor.enum_type).items()}
        return partial(_member, members, hint.__name__, caution.newer.get(hint))
    if hint is str:
        return caution.text
    return None if _bare(hint) in (int, float, bool, bytes) else partial(_parse, hint.parse)


def _parse(parse: Convert, text: str) -> Any:
    try:
        return parse(text)
    except UsageError as error:
        raise WireError(str(error)) from None


def _read(name: str, convert: Convert, message: Message) -> Any:
    return convert(getattr(message, name))


def _read_optional(name: str, convert: Convert, message: Message) -> Any:
    return convert(getattr(message, name)) if message.HasField(name) else None


def _read_scalar(name: str, message: Message) -> Any:
    value = getattr(message, name)
    # Only a zero may stand for an absent value: HasField is asked of few.
    return value if value or message.HasField(name) else None


def _read_plausible(name: str, is_plausible: Callable[[float], bool], message: Message) -> float | None:
    value: float = getattr(message, name)
    if value:
        return value if is_plausible(value) else None
    return value if message.HasField(name) else None


def _read_all(name: str, convert: Convert | None, message: Message) -> tuple[Any, ...]:
    values = getattr(message, name)
    return tuple(values) if convert is None else tuple(map(convert, values))


def _member(members: Mapping[int, Enum], name: str, newer: Enum | None, number: int) -> Enum:
    member = members.get(number, newer)
    if member is None:
        raise WireError(f"{_words(name)} {number} is unknown to this version of tfscale: upgrade it")
    return member


def _numbers(kind: type[Enum], enumeration: EnumDescriptor) -> dict[Enum, int]:
    """Return the wire number of each member of a record's enum."""
    prefix = _words(enumeration.name).replace(" ", "_").upper()
    return {member: enumeration.values_by_name[f"{prefix}_{member.name}"].number for member in kind}


def _words(name: str) -> str:
    """Return a name such as `TaskState` as `task state`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def _present(hint: Any) -> Any:
    """Return the type of a field's value where the value is not None."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(option for option in get_args(hint) if option is not type(None))
    return hint


def _bare(hint: Any) -> Any:
    """Return a type without the annotation that marks a time."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
