"""Fields of protobuf messages as the bytes that they are on the wire.

Messages written one after the other are one message that has the fields of all of them: what is encoded already can be
put into another message without being read.
"""

from __future__ import annotations

import sys
from array import array

_BYTES = 2
"""Wire type of a field that begins with its length."""


def delimited(number: int, payload: bytes) -> bytes:
    """Return a field of bytes, text or a message: its number (below 16), its length and its payload."""
    head = bytearray([number << 3 | _BYTES])
    left = len(payload)
    while left > 0x7F:
        head.append(left & 0x7F | 0x80)
        left >>= 7
    head.append(left)
    return bytes(head) + payload


def column(kind: str, data: bytes) -> array[float]:
    """Return the numbers of a packed field of float (`f`) or double (`d`). Raises ValueError where one is cut."""
    values: array[float] = array("d" if kind == "d" else "f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
