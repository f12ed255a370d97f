"""Addresses on this machine's loopback."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator

PORTS = range(20_000, 32_000)
"""Ports below those that the kernel gives to outgoing connections, which could take one before its task listens."""


def free_addresses(number: int) -> Iterator[str]:
    """Yield addresses on which no process listens, no two of them the same."""
    ports = filter(_is_free, random.sample(PORTS, len(PORTS)))
    return iter([f"127.0.0.1:{port}" for port in itertools.islice(ports, number)])


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
