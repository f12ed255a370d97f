"""Numbers for people: three digits that matter, a unit, and a dash for what is unknown."""

from __future__ import annotations

from tfscale.core.text import clock as clock

UNKNOWN = "–"


def seconds(value: float | None) -> str:
    """A step's time or a phase: `72.4 ms`, `1.25 s`, `830 us`."""
    if value is None:
        return UNKNOWN
    if value < 0.001:
        return f"{value * 1e6:.0f} us"
    if value < 1.0:
        return f"{_three(value * 1e3)} ms"
    return f"{_three(value)} s"


def duration(value: float | None) -> str:
    """How long something lasts: `12 s`, `3 m 20 s`, `5 h 02 m`, `2 d 4 h`."""
    if value is None:
        return UNKNOWN
    whole = max(0, int(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(value: float | None, unit: str = "B") -> str:
    """Bytes by powers of 1,000: `3.40 GB`."""
    if value is None:
        return UNKNOWN
    for prefix in ("", "k", "M", "G"):
        if value < 999.5:
            return f"{_three(value) if prefix else f'{value:.0f}'} {prefix}{unit}"
        value /= 1000
    return f"{_three(value)} T{unit}"


def rate(value: float | None) -> str:
    """Bytes a second."""
    return size(value, "B/s")


def percent(value: float | None) -> str:
    """A ratio of 0 to 1."""
    return UNKNOWN if value is None else f"{value * 100:.0f}%"


def celsius(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} °C"


def watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f} W"


def hertz(value: float | None) -> str:
    """A clock, in MHz as NVIDIA's tools say it."""
    return UNKNOWN if value is None else f"{value / 1e6:.0f} MHz"


def count(value: float | None) -> str:
    """A number of things, with thousands apart."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
