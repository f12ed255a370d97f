"""Numbers, units and names as text for people: the sentences of diagnoses and the cells of the console.

Functions whose argument may be None return `UNKNOWN` for it. Needs no numpy. Text of other programs is made fit for a
terminal: control sequences of a log would colour the screen or move its cursor.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container, Sequence

from tfscale.core.failure.task_signals import TaskSignal
from tfscale.core.records.task_status import Exit
from tfscale.core.records.training import Display, Training
from tfscale.core.validation import is_moment

UNKNOWN = "–"
"""Text in place of a number that was not measured."""
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
"""Control sequences [ECMA-48], commands to the operating system, and lone escapes."""


def printable(text: str) -> str:
    """Return the text without control sequences, with a space for each other unprintable character."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in _ESCAPES.sub("", text))


def bounded(text: str, most: int) -> str:
    """Return another program's text as printable text, cut to `most` characters and three dots."""
    return printable(text) if len(text) <= most else f"{printable(text[:most])}..."


def clock(at: float) -> str:
    """Return Unix seconds as the local time of day, or dashes where they are outside the calendar."""
    return time.strftime("%H:%M:%S", time.localtime(at)) if is_moment(at) else "--:--:--"


def since_when(begin: float, began_earlier: bool) -> str:
    """Return the begin of a finding in words: `since before 12:00:00` where it is older than the kept data."""
    return f"since {'before ' if began_earlier else ''}{clock(begin)}"


def moment(at: float) -> str:
    """Return Unix seconds as local date and time, or dashes where they are outside the calendar."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if is_moment(at) else "---------- --:--:--"


def duration(seconds: float) -> str:
    """Return a measured time, rounded for a sentence: `61 ms`, `2.4 s`, `95 s`, `12 min`."""
    if seconds < 0.0095:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def step_time(seconds: float | None) -> str:
    """Return the time of a step or of a phase with three digits: `830 us`, `72.4 ms`, `1.25 s`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.001:
        return f"{seconds * 1e6:z.0f} us"
    return f"{_three_digits(seconds * 1e3)} ms" if seconds < 1.0 else f"{_three_digits(seconds)} s"


def elapsed(seconds: float | None) -> str:
    """Return the time since an event in its two largest units: `12 s`, `3 m 20 s`, `5 h 02 m`, `2 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    total_seconds = max(0, int(seconds))
    if total_seconds < 60:
        return f"{total_seconds} s"
    if total_seconds < 3600:
        return f"{total_seconds // 60} m {total_seconds % 60:02} s"
    if total_seconds < 86400:
        return f"{total_seconds // 3600} h {total_seconds % 3600 // 60:02} m"
    return f"{total_seconds // 86400} d {total_seconds % 86400 // 3600} h"


def progress_words(training: Training, at: float) -> str:
    """Return how far a training is at a moment in Unix seconds, as far as known; empty where nothing is.

    `epoch 3 of 10, step 120 of 500, 24 % done, 1 h 02 m left: done at about 19:40`; without a length `step 1,205`.
    """
    share = training.share_done
    words = [] if training.epoch is None else [f"epoch {_of(training.epoch + 1, training.epochs)}"]
    if training.time_left == 0:
        return ", ".join([*words, "done"])
    if training.epoch is None and training.epoch_steps is None:
        step = training.epoch_step if training.global_step is None else training.global_step
    else:
        step = training.epoch_step
    words += [] if step is None else [f"step {_of(step, training.epoch_steps)}"]
    words += [] if share is None else [f"{whole_percent(share)} done"]
    return ", ".join([*words, *filter(None, [when_done(training, at)])])


def _of(number: int, last: int | None) -> str:
    return f"{number:,}" if last is None else f"{number:,} of {last:,}"


def when_done(training: Training, at: float) -> str:
    """Return the time that is left at a moment: `1 h 02 m left: done at about 19:40`; empty where none is known."""
    if not training.time_left:
        return ""
    done = time.localtime(at + training.time_left) if is_moment(at + training.time_left) else None
    # A time of day says which one it is within a day.
    form = "%H:%M" if training.time_left < 20 * 3600 else "%Y-%m-%d %H:%M"
    when = f": done at about {time.strftime(form, done)}" if done else ""
    is_by_steps = training.epoch is not None and training.epoch_step is not None
    further = is_by_steps and training.between_epochs is None
    return f"{elapsed(training.time_left)} left{when}" + (", without the ends of epochs" if further else "")


def elapsed_briefly(seconds: float) -> str:
    """Return the time since an event, cut to its largest unit: `12 s`, `3 m`."""
    return " ".join(elapsed(seconds).split()[:2])


def times(factor: float) -> str:
    """Return a factor for a sentence: `1.4x`, `12x`, `100x`."""
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:,.0f}x"


def step_rate(steps_per_second: float) -> str:
    """Return steps a second, or the time of a step where steps are slow: `12.3 steps/s`, `8.2 s a step`."""
    return f"{steps_per_second:.3g} steps/s" if steps_per_second >= 0.5 else f"{duration(1 / steps_per_second)} a step"


def bit_rate(bits_per_second: float) -> str:
    """Return the speed of a link: `185 Mbit/s`, `10 Gbit/s`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # What would be rounded to 1,000 is one of the next unit.
        if bits_per_second >= 0.9995 * size:
            return f"{bits_per_second / size:.3g} {unit}bit/s"
    return f"{bits_per_second:.3g} bit/s"


def data_size(size_bytes: float | None, unit: str = "B") -> str:
    """Return bytes by powers of 1,000: `3.40 GB`."""
    if size_bytes is None:
        return UNKNOWN
    size = size_bytes
    for prefix in ("", "k", "M", "G"):
        if size < 999.5:
            return f"{_three_digits(size) if prefix else f'{size:.0f}'} {prefix}{unit}"
        size /= 1000
    return f"{_three_digits(size)} T{unit}"


def data_rate(bytes_per_second: float | None) -> str:
    """Return bytes a second by powers of 1,000: `118 MB/s`."""
    return data_size(bytes_per_second, "B/s")


def percent(fraction: float | None) -> str:
    """Return a fraction of 0 to 1 in hundredths: `85%`."""
    return UNKNOWN if fraction is None else f"{fraction * 100:.0f}%"


def whole_percent(share: float | None) -> str:
    """Return how much is done as a percentage that is 100 only once all of it is."""
    return percent(None if share is None else math.floor(share * 100) / 100)


def ratio(value: float | None) -> str:
    """Return a ratio with two decimals: `1.52`."""
    return UNKNOWN if value is None else f"{value:.2f}"


def four_digits(value: float | None) -> str:
    """Return a number with four significant digits: `0.6931`, `1.204e-05`."""
    return UNKNOWN if value is None else f"{value:.4g}"


def displayed(value: float | None, display: Display) -> str:
    """Return a measured number as its display formats it."""
    return UNKNOWN if value is None else format(value, display.format_spec)


def celsius(degrees: float | None) -> str:
    return UNKNOWN if degrees is None else f"{degrees:.0f} °C"


def watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f} W"


def energy_text(joules: float) -> str:
    """Return energy in the unit of bills: `12.3 kWh`, `840 Wh`."""
    return f"{_three_digits(joules / 3.6e6)} kWh" if joules >= 3.6e6 else f"{_three_digits(joules / 3600)} Wh"


def megahertz(hertz: float | None) -> str:
    """Return a frequency in MHz, the unit of NVIDIA's own tools."""
    return UNKNOWN if hertz is None else f"{hertz / 1e6:.0f} MHz"


def count(value: float | None) -> str:
    """Return a number of things, with commas between thousands: `12.5`, `1,200`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 worker`, `3 workers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listing(names: Sequence[str], most: int = 4) -> str:
    """Return names as one phrase of at most `most` items: `a`, `a and b`, `a, b and 7 others`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def aligned(rows: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """Return a line for each row of cells, whose columns are as wide as their widest cell.

    Args:
        rows: of equal length.
        left: columns whose cells begin at the left; those of all others end at the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9, and `signal 99` for a number without a name."""
    try:
        return TaskSignal(number).name
    except ValueError:
        return f"signal {number}"


def exit_phrase(exit: Exit | None) -> str:
    """Return how a task ended, as a verb and its object: `exited 1`, `was killed by SIGKILL`."""
    if exit is None or (exit.code is None and exit.signal is None):
        return "ended, nobody knows how"
    return f"exited {exit.code}" if exit.signal is None else f"was killed by {signal_name(exit.signal)}"


def exit_clause(exit: Exit | None) -> str:
    """Return how and when a task ended: `exited 1 at 19:01:07`."""
    return exit_phrase(exit) if exit is None else f"{exit_phrase(exit)} at {clock(exit.at)}"


def no_contact(names: Sequence[str]) -> str:
    """Return the phrase for agents that do not answer, by the names of their tasks."""
    return f"no contact with the agent{'s' * (len(names) > 1)} of {listing(names)}"


def not_heard_so_far(names: Sequence[str]) -> str:
    """Return the phrase for agents that have not answered yet, by the names of their tasks."""
    agents, has = ("agent", "has") if len(names) == 1 else ("agents", "have")
    return f"waiting for the {agents} of {listing(names)}, which {has} not answered so far"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
