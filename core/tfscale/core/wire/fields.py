"""Fields of protobuf messages as their bytes on the wire.

Messages written one after the other are one message with the fields of all of them: an encoded message can be put into
another message without being read.
"""

from __future__ import annotations

import sys
from array import array

_BYTES = 2
"""Wire type of a field that begins with its length."""
_CONTINUED = [bytes([0x80 | low]) for low in range(0x80)]
"""First byte of a number of several bytes, by the number's last seven bits."""


def delimited(number: int, payload: bytes) -> bytes:
    """Return a field of bytes, text or a message: number (below 16), length and payload."""
    return bytes([number << 3 | _BYTES]) + _varint(len(payload)) + payload


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
    rest = _varint(block)
    return rest.join(_CONTINUED[begin:end]), rest


def _varint(number: int) -> bytes:
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
