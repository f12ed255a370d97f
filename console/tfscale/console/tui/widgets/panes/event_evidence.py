"""Evidence of an event: each number with its unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.text import Text
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.gpu_price import hours_text
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


def evidence(entry: TimelineEntry, appearance: Appearance) -> Text:
    """Return all evidence of an event."""
    palette, diagnosis = appearance.palette, entry.diagnosis
    text = Text(entry.text if diagnosis is None else diagnosis.sentence, style=f"bold {palette.text}")
    facts = [("subject", entry.subject), ("kind", entry.kind.replace("_", " "))]
    if diagnosis is not None:
        lasted = diagnosis.end - diagnosis.begin if diagnosis.end is not None else None
        before = "before " if diagnosis.began_earlier else ""
        over = "" if lasted is None else f", over after {elapsed(lasted)}"
        facts += [("severity", diagnosis.severity), ("since", f"{before}{clock(diagnosis.begin)}{over}")]
        items = ((name, value) for name, value in diagnosis.evidence.items() if value is not None)
        facts += [(name.replace("_", " "), _formatted(name, value)) for name, value in items]
        several = {"together": diagnosis.together, "remedies": tuple(map(str, diagnosis.remedies))}
        facts += [(name, "; ".join(values)) for name, values in several.items() if values]
    else:
        facts += [("severity", entry.severity), ("at", clock(entry.at))]
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        text.append(f"\n{name:<{width}}", style=palette.dim)
        text.append(value, style=palette.text)
    return spelled(text, appearance)


def _formatted(name: str, value: float | str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        # Words may have commas; lines of a log are lines.
        return {"log": "\n", "changed": "; "}.get(name, ", ").join(value)
    return value if isinstance(value, str) else _FORMATS.get(name, count)(value)
