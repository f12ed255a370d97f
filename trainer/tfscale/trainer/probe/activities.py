"""What the process does instead of steps, as it begins and ends."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_BRIEF = 0.05
"""Seconds."""

_REMEMBERED = 16

COMPILE, CHECKPOINT, EVALUATION, IDLE = "compile", "checkpoint", "evaluation", "idle"
_INFERRED = (EVALUATION, IDLE)


class Activity(NamedTuple):
    """Unix seconds; `end` is None while it lasts. The same kind and begin is the same activity, told again."""

    kind: str
    begin: float
    end: float | None = None


class Announcer:
    """Knows what has been told to begin, so that its end is told, too; what was over at once is never told."""

    def __init__(self) -> None:
        self._lasting: set[tuple[str, float]] = set()
        self._known: dict[tuple[str, float], float] = {}

    def worth_telling(self, known: list[Activity], inferred: list[Activity]) -> list[Activity]:
        """Of what began or ended, in one report: what hooks know, and what was inferred where they know nothing."""
        self._known |= {each[:2]: each.end or math.inf for each in known if each.kind in _INFERRED}
        self._known = dict(list(self._known.items())[-_REMEMBERED:])
        changes = [*known, *(activity for activity in inferred if not self._is_known(activity))]
        over = {activity[:2] for activity in changes if activity.end is not None}
        return [activity for activity in changes if self._is_worth(activity, over)]

    def _is_known(self, inferred: Activity) -> bool:
        return any(
            kind == inferred.kind and inferred.begin <= end and begin <= (inferred.end or math.inf)
            for (kind, begin), end in self._known.items()
        )

    def _is_worth(self, activity: Activity, over: set[tuple[str, float]]) -> bool:
        key = activity[:2]
        if activity.end is None:
            self._lasting |= {key} - over
            return key not in over
        was_told = key in self._lasting
        self._lasting.discard(key)
        return was_told or activity.end - activity.begin >= _BRIEF


class Activities:
    """Told by hooks, in whatever thread they run. An activity within one of its kind belongs to it."""

    def __init__(self) -> None:
        self._depths: dict[str, int] = {}
        self._begun: dict[str, float] = {}
        self._ended: list[Activity] = []
        self._told: set[Activity] = set()
        self._lock = threading.Lock()
        self.checkpointed: float | None = None
        """When the newest checkpoint was written, Unix seconds."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The block writes a checkpoint from which training can go on."""
        with self.during(CHECKPOINT):
            yield
            self.checkpointed = time.time()

    @contextmanager
    def during(self, kind: str) -> Iterator[None]:
        """The block is an activity of this kind."""
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

    @property
    def has_changed(self) -> bool:
        """Whether anything lasts, or has ended since the last call of `drain`."""
        return bool(self._begun or self._ended or self._told)

    def drain(self) -> list[Activity]:
        """What has ended since the last call, and what has begun and still lasts."""
        with self._lock:
            ended, self._ended = self._ended, []
            lasting = {Activity(*begun) for begun in self._begun.items()}
        begun = sorted(lasting - self._told, key=lambda activity: activity.begin)
        self._told = lasting
        return ended + begun
