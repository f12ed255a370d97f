"""Random inputs: what is right, changed at random places."""

from __future__ import annotations

import os
import random

_WORDS = (
    b"",
    b"\x00",
    b"\xff\xff",
    b"-1",
    b"1e999",
    b"NaN",
    b"18446744073709551616",
    b'"',
    b"{",
    b"]",
    b"null",
    b"[" * 99,
)


def inputs() -> int:
    """Return how many inputs each parser gets."""
    return int(os.environ.get("FAULTS_INPUTS", "2000"))


def mutated(random_numbers: random.Random, right: bytes) -> bytes:
    """Return right bytes with one to three changes, half of them of one byte; now and then random ones."""
    if random_numbers.random() < 0.05:
        return random_numbers.randbytes(random_numbers.randrange(200))
    data = bytearray(right)
    for _ in range(random_numbers.randint(1, 3)):
        place = random_numbers.randrange(len(data) + 1)
        end = min(len(data), place + random_numbers.randrange(12))
        match random_numbers.randrange(10):
            case 0:
                data[place:end] = random_numbers.randbytes(end - place)
            case 1:
                del data[place:end]
            case 2:
                data[place:place] = random_numbers.choice(_WORDS)
            case 3:
                data[place:place] = data[end : end + 40]
            case 4:
                data[place:end] = random_numbers.choice(_WORDS)
            case _ if place < len(data):
                data[place] = random_numbers.randrange(256)
    return bytes(data)
