"""Random damage to bytes that a real producer has written."""

from __future__ import annotations

import random
import struct

_SPECIAL = [struct.pack("<d", value) for value in (float("nan"), float("inf"), -1e300, 1e18)] + [b"\xff" * 8]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one to eight places changed, removed, repeated or filled with numbers seldom seen."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                changed[place : place + 8] = rng.choice(_SPECIAL)
            case 2 if len(changed) > 32:
                del changed[place : place + rng.randrange(1, 16)]
            case 3:
                changed[place:place] = rng.randbytes(rng.randrange(1, 8))
            case _:
                changed[place:place] = changed[:place][-16:]
    return bytes(changed)
