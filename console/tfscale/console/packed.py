"""Fields of messages as the bytes that they are on the wire."""

from __future__ import annotations

import sys
from array import array

_BYTES = 2
"""The wire type of what begins with its length."""


def delimited(number: int, payload: bytes) -> bytes:
    """A field of a message, with its number (below 16) and its length."""
    head = bytearray([number << 3 | _BYTES])
    left = len(payload)
    while left > 0x7F:
        head.append(left & 0x7F | 0x80)
        left >>= 7
    head.append(left)
    return bytes(head) + payload


def column(kind: str, data: bytes) -> array[float]:
    """A packed field of float (`f`) or double (`d`). Raises ValueError where it is none."""
    values: array[float] = array("d" if kind == "d" else "f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
