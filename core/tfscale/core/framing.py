"""Messages on a stream socket: each comes after its length, four bytes in network order."""

from __future__ import annotations

import struct

from tfscale.core.errors import TfscaleError

HEADER_BYTES = 4
LONGEST = 64 << 20
"""Bytes of a message: more are nobody's, but another protocol's letters taken for a length."""
AT_ONCE = 16 << 10
"""Bytes of a message, with its length, that goes as a whole or not at all: Linux puts up to 32 KiB into one buffer."""
_HEADER = struct.Struct("!I")


class FramingError(TfscaleError):
    """What comes are no messages."""


def framed(message: bytes) -> bytes:
    """A message as it is sent."""
    return _HEADER.pack(len(message)) + message


def length(header: bytes) -> int:
    """Bytes of the message that comes after this header. Raises FramingError."""
    (number,) = _HEADER.unpack(header)
    if number > LONGEST:
        raise FramingError(f"a message of {number:,} bytes: whoever sends this speaks another protocol")
    return int(number)
