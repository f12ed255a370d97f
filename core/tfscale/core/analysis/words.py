"""Numbers and names as people read them, for the sentences of diagnoses. No numpy: the hang rule speaks too."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from tfscale.core.validation import is_moment


def clock(at: float) -> str:
    """Unix seconds as the local time of day; dashes where they are no moment."""
    return time.strftime("%H:%M:%S", time.localtime(at)) if is_moment(at) else "--:--:--"


def duration(seconds: float) -> str:
    """A length of time with the unit that suits it: `61 ms`, `2.4 s`, `95 s`, `12 min`."""
    if seconds < 0.0095:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def rate(steps_per_second: float) -> str:
    """Steps a second, or for slow ones the time of one: `12.3 steps/s`, `8.2 s a step`."""
    return f"{steps_per_second:.3g} steps/s" if steps_per_second >= 0.5 else f"{duration(1 / steps_per_second)} a step"


def listing(names: Sequence[str], most: int = 4) -> str:
    """`a`, `a and b`, `a, b and 7 others`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def plural(count: int, noun: str) -> str:
    """`1 worker`, `3 workers`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; the number where this system has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def bits(per_second: float) -> str:
    """The speed of a link: `185 Mbit/s`, `10 Gbit/s`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}bit/s"
    return f"{per_second:.3g} bit/s"
