"""Clocks of hosts that run wrong by more than a second against the others'.

All workers leave one all-reduce at the same moment, to within its duration. Each host's own clock gives the time, so a
difference is one of the clocks. Times of arrival are not used: neither a slow network nor a late console changes the
workers' own times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.core.cluster.task import CLUSTER, subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import duration, listing

APART_ON, APART_OFF = 1.0, 0.8
"""Seconds beyond the time in the all-reduce from which on a clock counts as wrong, and below which it is right
again. From a second on the events of several hosts stand in the wrong order; hosts that run NTP differ by
milliseconds."""
STEPS = 20
"""Newest steps over which medians are taken: fewer say little where a process was just held up, and with more a
clock that is set is noticed later."""
PERIOD = 5.0
"""Seconds between two comparisons: clocks do not run away faster, and to read a thousand workers' steps takes time.
Consoles compare at the same moments, so that one that comes late has found the same."""
_LATELY = 3 * PERIOD
"""Seconds back from a new finding in which its clock may have been set: until the next comparison that has ten steps
of after that."""


class WrongClocks(Detector):
    """Watch of the moments at which workers leave the same all-reduce, each by its own clock."""

    def __init__(self) -> None:
        self._found: list[Diagnosis] = []
        self._compared = -np.inf
        """Number of the period in which they were compared last."""
        self._set: dict[str, float] = {}
        """Time at which a task's clock was set, on the observer's clock, to a second: its earlier steps were moved."""

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return a `wrong_clock` for each task whose clock differs from most; of two tasks, one for the cluster."""
        # The frame of after that has come in the last second, and the one before it is a second older.
        self._set |= {task.name: view.now - 1.0 for task in view.tasks if task.clock_set}
        window = view.steps.window.last(STEPS)
        if view.steps.is_asynchronous or not window.meets:
            return []
        if len(window) == STEPS and view.now // PERIOD != self._compared:
            self._compared = view.now // PERIOD
            before = {each.subject for each in self._found}
            first, last = int(window.sequence[0]), int(window.sequence[-1])
            self._found = _compare(window, _ends(view, first, last), before)
            if any(each.subject not in before for each in self._found):
                # Twice the window has the steps since the last comparison, and enough of before.
                ends = _ends(view, max(0, 2 * int(view.steps.window.sequence[0]) - last), last)
                onsets = [
                    self._set_lately(each, view.now) or _onset(each, window.subjects, ends) for each in self._found
                ]
                self._found = [replace(each, begin=at) for each, at in zip(self._found, onsets, strict=True)]
        return self._found

    def _set_lately(self, clock: Diagnosis, now: float) -> float | None:
        of_one = clock.subject != CLUSTER
        times = [at for name, at in self._set.items() if now - at <= _LATELY and (name == clock.subject or not of_one)]
        return max(times, default=None)


def _ends(view: ClusterView, first: int, last: int) -> Floats:
    """Return (n, k) ends of the steps `first` to `last`, Unix seconds, each on its own host's clock; NaN unknown."""
    table, subjects, _ = view.steps.counted
    ends, _ = table.reported(subjects, first, last)
    return ends[:, np.isfinite(ends).any(axis=0)]


def _onset(clock: Diagnosis, subjects: Sequence[str], ends: Floats) -> float:
    """Return the first step's end at which a clock was as wrong as now, by the others' clocks; `ends` are (n, k)."""
    of_one = clock.subject != CLUSTER
    is_own = np.array([subject_owner(each) == clock.subject if of_one else each == subjects[0] for each in subjects])
    is_whole = np.isfinite(ends).all(axis=1)
    if not (is_own & is_whole).any() or not (~is_own & is_whole).any():
        return clock.begin
    own, others = (np.median(ends[rows & is_whole], axis=0) for rows in (is_own, ~is_own))
    apart = own - others
    # Not its median: where half of the steps were before the clock was set, that is half of what it is off by.
    is_other = np.abs(apart - np.median(apart[-STEPS // 4 :])) > APART_OFF
    first = len(others) - int(np.argmax(is_other[::-1])) if is_other.any() else 0
    return float(others[min(first, len(others) - 1)])


def _compare(window: AlignedSteps, ends: Floats, before: set[str]) -> list[Diagnosis]:
    """Return the wrong clocks by the (n, k) `ends` of steps; those in `before` were wrong at the last look."""
    is_whole = np.isfinite(ends).all(axis=1) & ~np.isnan(window.reduce).any(axis=0)
    rows = list({subject_owner(window.subjects[row]): row for row in np.flatnonzero(is_whole)}.values())
    names, ends = [subject_owner(window.subjects[row]) for row in rows], ends[rows]
    inside = np.median(window.reduce[:, rows], axis=0)
    if len(names) < 2:
        return []
    if len(names) == 2:
        apart = float(np.median(ends[1] - ends[0]))
        return [_of_two(names, apart, window)] if _is_wrong(apart, inside.max(), CLUSTER in before) else []
    ahead, longest = np.median(ends - np.median(ends, axis=0), axis=1), np.maximum(inside, np.median(inside))
    return [
        _of_one(name, apart, window)
        for name, apart, reduce in zip(names, ahead.tolist(), longest.tolist(), strict=True)
        if _is_wrong(apart, reduce, name in before)
    ]


def _is_wrong(apart: float, inside: float, was_wrong: bool) -> bool:
    """Decide whether clocks are further apart than the seconds `inside` the all-reduce explain."""
    return abs(apart) - inside > (APART_OFF if was_wrong else APART_ON)


def _of_one(name: str, apart: float, window: AlignedSteps) -> Diagnosis:
    sentence = f"{name}'s clock is {duration(abs(apart))} {'ahead of' if apart > 0 else 'behind'} the others'"
    return _diagnosis(name, sentence, apart, window)


def _of_two(names: Sequence[str], apart: float, window: AlignedSteps) -> Diagnosis:
    sentence = f"the clocks of {listing(names)} are {duration(abs(apart))} apart: which of them is wrong is not known"
    return _diagnosis(CLUSTER, sentence, apart, window)


def _diagnosis(subject: str, sentence: str, apart: float, window: AlignedSteps) -> Diagnosis:
    return Diagnosis(
        "wrong_clock", subject, float(window.end[0]), None, "warning", sentence, evidence={"clock_apart": apart}
    )
