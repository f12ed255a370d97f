"""Student's t distribution, for whole degrees of freedom."""

from __future__ import annotations

import math

_LARGEST = 1e6
"""Quantile beyond which none is searched: one degree of freedom has it at 6e-7."""


def within(t: float, freedom: int) -> float:
    """Return the probability that |T| is at most `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom == 1:
        return 2 * angle / math.pi
    term = cosine if freedom % 2 else 1.0
    total = term
    for number in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine**2 * (number - 1) / number
        total += term
    return 2 / math.pi * (angle + sine * total) if freedom % 2 else sine * total


def two_sided(error: float, freedom: int) -> float:
    """Return t for which |T| is above t with probability `error`."""
    low, high = 0.0, _LARGEST
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < 1 - error else (low, middle)
    return high
