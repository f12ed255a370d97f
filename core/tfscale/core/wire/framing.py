"""Messages on a stream socket: each follows its length, four bytes in network order."""

from __future__ import annotations

import struct

from tfscale.core.errors import TfscaleError

HEADER_BYTES = 4
LONGEST = 64 << 20
"""Bytes of the longest message: a greater length is text of another protocol, read as a number."""
AT_ONCE = 16 << 10
"""Largest size, in bytes with its length, at which a message is sent entirely or not at all: a buffer of Linux has 32
KiB.
"""
_HEADER = struct.Struct("!I")


class FramingError(TfscaleError):
    """Bytes that are not messages after their lengths."""


def framed(message: bytes) -> bytes:
    """Return the message after its length, ready to be sent."""
    return _HEADER.pack(len(message)) + message


def length(header: bytes) -> int:
    """Return the bytes of the message that follows this header. Raises FramingError."""
    (number,) = _HEADER.unpack(header)
    if number > LONGEST:
        raise FramingError(f"a message of {number:,} bytes: the sender speaks another protocol")
    return int(number)
