"""Evidence of a finding as text: each number with its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tfscale.core.cluster.gpu_price import hours_text
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import celsius, clock, count, data_rate, data_size, duration, elapsed, percent, step_time

_FORMATS: dict[str, Callable[[float], str]] = {
    "noticed": clock,
    **dict.fromkeys(("excess", "step_before", "transfer", "host", "input", "compute"), step_time),
    "quiet": elapsed,
    **dict.fromkeys(("ratio", "phase_ratio", "worst_phase_ratio", "slowdown"), "{:.3g}x".format),
    **dict.fromkeys(("sent", "received", "swapping"), data_rate),
    **dict.fromkeys(("link", "bus_bandwidth"), partial(data_size, unit="bit/s")),
    "temperature": celsius,
    **dict.fromkeys(("rate", "rate_before"), "{:.3g} steps/s".format),
    **dict.fromkeys(("lost_seconds", "idle_seconds", "paid_back_after"), duration),
    "gpu_hours_per_hour": hours_text,
    "money_per_hour": "{:,.2f}".format,
    **dict.fromkeys(
        (
            *(
                "cost",
                "gained",
                "expected",
                "noise",
                "share",
                "fraction",
                "link_fraction",
                "input_share",
                "throttled",
                "heat",
                "power_brake",
            ),
            *("power_cap", "clock", "clock_to_peers", "cpu", "cpu_pressure", "cpu_pressure_of_peers"),
            *("memory", "memory_pressure", "gpu", "gpu_memory"),
        ),
        percent,
    ),
}
"""Format by name of the evidence; other values are drawn unchanged."""


def evidence_items(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each known part of a finding's evidence."""
    for name, value in diagnosis.evidence.items():
        if value is not None:
            yield name.replace("_", " "), _formatted(name, value)


def _formatted(name: str, value: float | str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        # Words may have commas; lines of a log are lines.
        return {"log": "\n", "changed": "; "}.get(name, ", ").join(value)
    return value if isinstance(value, str) else _FORMATS.get(name, count)(value)
