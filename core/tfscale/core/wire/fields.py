"""Fields of protobuf messages as their bytes on the wire.

Messages written one after the other are one message with the fields of all of them: an encoded message can be put into
another message without being read.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5
"""Wire types: a number of one to ten bytes, 8 bytes, bytes after their length, and 4 bytes."""
_SIZES = {DOUBLE: 8, FLOAT: 4}
_MOST_BITS = 63
"""Shift of the tenth byte of a number, its last one."""
_SINGLE = [bytes([number]) for number in range(0x80)]
"""Bytes of the numbers of a single byte, as most lengths, keys and counts are."""
_CONTINUED = [bytes([0x80 | low]) for low in range(0x80)]
"""First byte of a number of several bytes, by the number's last seven bits."""


class WireError(ValueError):
    """A message that fits no record; the text says why."""


def delimited(number: int, payload: bytes) -> bytes:
    """Return a field of bytes, text or a message: number, length and payload."""
    return varint(number << 3 | BYTES) + varint(len(payload)) + payload


def fields_in(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field; only numbers of VARINT are read. Raises WireError where one is cut."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        kind = key & 7
        if kind == VARINT:
            value, place = _number(message, place)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, place = _number(message, place)
        elif (size := _SIZES.get(kind, -1)) < 0:
            raise WireError(f"a field of wire type {kind}")
        place += size
        if place > len(message):
            raise WireError("a field is cut")
        yield key >> 3, message[place - size : place]


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place of the message, and the place after it. Raises WireError."""
    number = 0
    for shift in range(0, _MOST_BITS + 1, 7):
        if place >= len(message):
            break
        byte, place = message[place], place + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise WireError("a number is cut")


def consecutive(first: int, count: int) -> bytes:
    """Return `count` numbers from `first` on as a packed field of uint64."""
    parts: list[bytes] = []
    end = first + count
    while first < end:
        # Numbers that differ in their last seven bits alone have the same bytes but for the first one.
        block = first >> 7
        after = min(end, (block + 1) << 7)
        parts += _varints_of(block, first & 0x7F, after - (block << 7))
        first = after
    return b"".join(parts)


def _varints_of(block: int, begin: int, end: int) -> tuple[bytes, ...]:
    """Return the varints of the numbers from `begin` to `end`, exclusive, within a block of 128."""
    if not block:
        return (bytes(range(begin, end)),)
    rest = varint(block)
    return rest.join(_CONTINUED[begin:end]), rest


def varint(number: int) -> bytes:
    """Return the bytes of a number of at least 0. Raises ValueError for a negative number."""
    if 0 <= number < len(_SINGLE):
        return _SINGLE[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def column(kind: str, data: bytes) -> array[float]:
    """Return the numbers of a packed field of float (`f`) or double (`d`). Raises ValueError where the last is cut."""
    values: array[float] = array("d", data) if kind == "d" else array("f", data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
