"""Records as the bytes of the messages of their names, and such bytes as values, without protobuf.

The script's TensorFlow brings protobuf in any version from 3.20 on, and code that is generated for one of them does not
load beside another. So messages are written by their table (`tfscale.v1.report_fields`), as protobuf writes them: None
is left out, and zero where it is the same as an absent value.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from tfscale.core.wire.fields import BYTES, DOUBLE, VARINT, WireError, consecutive, fields_in, varint
from tfscale.v1.report_fields import ENUMS, MESSAGES

_Write = Callable[[Any], bytes]
_DOUBLE = struct.Struct("<d")
_COLUMNS = {"double": "d", "float": "f"}


def encoded(message: str, record: Any) -> bytes:
    """Return the bytes of the message of this name that has the fields of the record.

    Raises ValueError for a negative number, AttributeError where the record lacks a field.
    """
    parts = []
    for name, write, has_zero in _writers(message):
        value = getattr(record, name)
        if value or (has_zero and value is not None):
            parts.append(write(value))
    return b"".join(parts)


def decoded(message: str, data: bytes) -> Mapping[str, Any]:
    """Return the values of the present fields, by their names. Raises WireError.

    Unknown fields are left out; fields of an enum, and repeated fields, are not read.
    """
    known = {number: (name, kind) for name, number, kind, *_ in MESSAGES[message]}
    found = ((known[number], value) for number, value in fields_in(data) if number in known)
    return {name: _decoded_value(kind, value) for (name, kind), value in found}


def _decoded_value(kind: str, value: int | bytes) -> Any:
    if isinstance(value, int) != (kind == "number"):
        raise WireError(f"another wire type than that of a {kind}")
    if isinstance(value, int):
        return value
    if kind in MESSAGES:
        return decoded(kind, value)
    try:
        return _DOUBLE.unpack(value)[0] if kind == "double" else value.decode()
    except (struct.error, ValueError) as error:
        raise WireError(str(error)) from None


@cache
def _writers(message: str) -> Sequence[tuple[str, _Write, bool]]:
    """Return name and writer of each field of a message, and whether a zero is written."""
    return [
        (name, _repeated_writer(number, kind) if is_repeated else _writer(number, kind), has_zero)
        for name, number, kind, is_repeated, has_zero in MESSAGES[message]
    ]


def _writer(number: int, kind: str) -> _Write:
    if kind in ENUMS:
        key, numbers = varint(number << 3 | VARINT), ENUMS[kind]
        return lambda member: key + varint(numbers[member.name])
    if kind == "number":
        key = varint(number << 3 | VARINT)
        return lambda value: key + varint(value)
    if kind == "double":
        key = varint(number << 3 | DOUBLE)
        return lambda value: key + _DOUBLE.pack(value)
    return _delimited_writer(number, partial(encoded, kind) if kind in MESSAGES else _text)


def _repeated_writer(number: int, kind: str) -> _Write:
    if kind == "number":
        return _delimited_writer(number, _numbers)
    if kind in _COLUMNS:
        return _delimited_writer(number, partial(_column, _COLUMNS[kind]))
    write = _writer(number, kind)
    return lambda values: b"".join(map(write, values))


def _delimited_writer(number: int, payload: _Write) -> _Write:
    key = varint(number << 3 | BYTES)

    def write(value: Any) -> bytes:
        data = payload(value)
        return key + varint(len(data)) + data

    return write


def _text(text: str) -> bytes:
    r"""Return a text's bytes; bytes of an argument or a path that are not UTF-8 are shown as `\udcff`."""
    return text.encode(errors="backslashreplace")


def _numbers(values: Sequence[int]) -> bytes:
    """Return packed numbers; numbers of steps mostly follow one another."""
    following = range(values[0], values[0] + len(values))
    if values == following or values == list(following):
        return consecutive(following.start, len(following))
    return b"".join(map(varint, values))


def _column(kind: str, values: Sequence[float]) -> bytes:
    column = array(kind, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
