"""Activities of the process outside of its steps, recorded by hooks at their begin and end."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from tfscale.core.records.probe_status import Activity, ActivityKind

_BRIEF = 0.05
"""Seconds. Ended activities are left out of a report if all of their kind took less than this together: a line for
each checkpoint of 5 ms would hide the longer ones; from 50 ms on a step of usual size shows the gap."""

_REMEMBERED = 16
"""Number of newest activities from hooks with which inferred activities are compared. An inferred activity is
reported within seconds, so a few would do; thousands would make each report slow."""

COMPILE, CHECKPOINT, EVALUATION, IDLE = ActivityKind
_INFERRED = (EVALUATION, IDLE)
_Key = tuple[ActivityKind, float]


class Announcer:
    """Selection of the activities to report: an activity reported at its begin is reported again at its end."""

    def __init__(self) -> None:
        self._lasting: set[_Key] = set()
        self._ends: dict[_Key, float] = {}
        """End of each activity that hooks noted, infinite while it lasts."""

    def to_report(self, noted: list[Activity], inferred: list[Activity]) -> list[Activity]:
        """Return the activities to report: all that began or ended since the last report.

        Hooks have `noted` some; those `inferred` from the spans count where hooks noted none.
        """
        self._ends |= {_key(activity): activity.end or math.inf for activity in noted if activity.kind in _INFERRED}
        self._ends = dict(list(self._ends.items())[-_REMEMBERED:])
        changes = [*noted, *(activity for activity in inferred if not self._is_noted(activity))]
        over = {_key(activity) for activity in changes if activity.end is not None}
        brief: defaultdict[ActivityKind, float] = defaultdict(float)
        for activity in changes:
            brief[activity.kind] += seconds if (seconds := _seconds(activity)) < _BRIEF else 0.0
        return [activity for activity in changes if self._is_reported(activity, over, brief[activity.kind])]

    def _is_noted(self, inferred: Activity) -> bool:
        return any(
            kind == inferred.kind and inferred.begin <= end and begin <= (inferred.end or math.inf)
            for (kind, begin), end in self._ends.items()
        )

    def _is_reported(self, activity: Activity, over: set[_Key], brief: float) -> bool:
        key = _key(activity)
        if activity.end is None:
            self._lasting |= {key} - over
            return key not in over
        was_reported = key in self._lasting
        self._lasting.discard(key)
        return was_reported or max(_seconds(activity), brief) >= _BRIEF


class Activities:
    """Activities that hooks record, in any thread. An activity inside another of its kind is part of the outer one."""

    def __init__(self) -> None:
        self._depths: dict[ActivityKind, int] = {}
        self._begun: dict[ActivityKind, float] = {}
        self._ended: list[Activity] = []
        self._drained: set[Activity] = set()
        """Activities that still lasted at the last call of `drain`."""
        self._lock = threading.Lock()
        self.checkpointed: float | None = None
        """Time at which the newest checkpoint was written, Unix seconds."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Record that the block writes a checkpoint from which training can go on."""
        with self.during(CHECKPOINT):
            yield
            self.checkpointed = time.time()

    @contextmanager
    def during(self, kind: ActivityKind) -> Iterator[None]:
        """Record that the block is an activity of this kind."""
        with self._lock:
            if not self._depths.get(kind):
                self._begun[kind] = time.time()
            self._depths[kind] = self._depths.get(kind, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._depths[kind] -= 1
                if not self._depths[kind]:
                    self._ended.append(Activity(kind, self._begun.pop(kind), time.time()))

    def drain(self) -> list[Activity]:
        """Return the activities that have ended since the last call, and the open ones."""
        with self._lock:
            ended, self._ended = self._ended, []
            lasting = {Activity(*begun) for begun in self._begun.items()}
        begun = sorted(lasting - self._drained, key=lambda activity: activity.begin)
        self._drained = lasting
        return ended + begun


def _seconds(activity: Activity) -> float:
    return math.inf if activity.end is None else activity.end - activity.begin


def _key(activity: Activity) -> _Key:
    """Return the identity of an activity: its kind and begin."""
    return activity.kind, activity.begin
