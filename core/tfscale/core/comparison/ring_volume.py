"""Bytes that a ring of replicas moves over each of its links."""

from __future__ import annotations


def volume(payload: float, ranks: float, gathered: float = 0.0) -> float:
    """Return the bytes over each link of a ring of `ranks`, each of which gives `payload` bytes.

    An all-reduce moves 2 (n-1)/n times the payload, an all-gather n - 1 times [nccl-tests; there the size of an
    all-gather is what each rank gets, n times what it gives]. `gathered` is the all-gather's share, 0 to 1.
    """
    return payload * (ranks - 1) * (2 / ranks * (1 - gathered) + gathered)
