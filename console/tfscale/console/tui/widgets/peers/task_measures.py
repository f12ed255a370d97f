"""Measures of a task's charts, and which of them differ most from those of its peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tfscale.console.history.history import Series
from tfscale.console.history.peer_bands import MIDDLE
from tfscale.core.records.step_batch import LAG_PHASES
from tfscale.core.records.training import TRAINING_DISPLAYS, display_of, paired, shown_name
from tfscale.core.text import UNKNOWN, data_rate, data_size, displayed, percent, step_time

FormatValue = Callable[[float | None], str]

_LATELY = 30
"""Seconds over which a task is compared."""
_DIFFERS, _AGREES = 0.05, 0.03
"""Distance from the band from which on a measure leads the charts, and below which it does so no more."""
_CLEARLY = 1.25
"""Factor between two distances that changes the order of their charts."""
OF_STEPS = (*LAG_PHASES, "transfer", "wait", "step_time", "longest")
"""Measures that a task has only where a step ends."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: its key in `measures_of`, its title, the format of its numbers, and its colour, a part of a step."""

    key: str
    title: str
    format_value: FormatValue
    colour: str = "transfer"
    top: float | None = None
    """Value at the upper edge of its chart; with None it follows the values."""


def _degrees(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} °C"


def _hertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value / 1e6:.0f} MHz"


def _watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} W"


_FIRST = (
    Measure("longest", "longest step", step_time, "update"),
    Measure("gpu", "GPU", percent, "compute", 1.0),
    Measure("cpu", "CPU of the host", percent, "compute", 1.0),
)
_THEN = (
    Measure("received", "received", data_rate),
    Measure("sent", "sent", data_rate),
    Measure("gpu_clock", "GPU clock", _hertz, "compute"),
    Measure("gpu_temperature", "GPU temperature", _degrees, "input", 100.0),
    Measure("gpu_power", "GPU power", _watts, "input"),
    Measure("gpu_memory", "GPU memory", data_size, "compute"),
)
_PARTS = (
    Measure("compute", "compute", step_time, "compute"),
    Measure("input", "input", step_time, "input"),
    Measure("host", "host", step_time, "host"),
    Measure("update", "update", step_time, "update"),
    Measure("wait", "wait", step_time),
)
"""Parts of a step one by one: the chart of all of them has the same numbers, but no peers."""


def known_measures(own: Mapping[str, Series], training: Sequence[str], *, with_parts: bool) -> Iterator[Measure]:
    """Yield the measures of which the task has a number, the most important first; `training` are keys of the logs."""
    logged = [Measure(key, shown_name(key), partial(displayed, display=display_of(key)), "host") for key in training]
    learning = [name for name in paired(training) if name == "loss" or name not in TRAINING_DISPLAYS]
    by_key = {measure.key: measure for measure in logged}
    later = [measure for measure in logged if measure.key not in learning]
    parts = _PARTS if with_parts else ()
    for measure in (*_FIRST, *(by_key[name] for name in learning), *_THEN, *later, *parts):
        if not np.isnan(own[measure.key]).all():
            yield measure


class Leaders:
    """Measures that differ from the peers, the most first; noise moves none."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def follow(self, own: Mapping[str, Series], bands: Mapping[str, Series]) -> None:
        """Compare the newest seconds of the task with the bands of its peers."""
        distances = {key: _distance(key, own, bands) for key in bands if key in own}
        kept = [key for key in self.keys if distances.get(key, 0.0) >= _AGREES]
        fresh = [key for key, distance in distances.items() if distance >= _DIFFERS and key not in kept]
        self.keys = kept + sorted(fresh, key=lambda key: -distances[key])
        for end in range(len(self.keys) - 1, 0, -1):
            for at in range(end):
                one, other = self.keys[at : at + 2]
                if distances[other] > _CLEARLY * distances[one]:
                    self.keys[at : at + 2] = other, one


def _distance(key: str, own: Mapping[str, Series], bands: Mapping[str, Series]) -> float:
    """Return how far the task lies outside the band: a part of a step in steps of the peers, another as a share."""
    if key in ("wait", "transfer", "step_time"):
        return 0.0  # who waits less than the others is late, which its own parts say; the rest is the same for all
    lately = np.stack([own[key], *bands[key]])[:, -_LATELY:]
    both = lately[:, ~np.isnan(lately).any(axis=0)]
    if not both.size:
        return 0.0
    value, low, middle, high = (float(mean) for mean in both.mean(axis=1))
    unit = _lately(bands["step_time"][MIDDLE]) if key in OF_STEPS and "step_time" in bands else abs(middle)
    outside = max(low - value, value - high)
    return outside / unit if unit > 0 and outside > 0 else 0.0


def _lately(values: Series) -> float:
    """Return the mean of the known values of the newest seconds; NaN where none is known."""
    known = values[-_LATELY:]
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")
