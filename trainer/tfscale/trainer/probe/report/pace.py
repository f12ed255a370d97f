"""Pace of a `fit` or of a loop whose length is known, and the time that it has left."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import median, median_low
from typing import NamedTuple

_WINDOW = 300.0
"""Seconds over which the pace is taken: a checkpoint a minute is in it, and after 2.5 minutes a new pace has won."""
_GROUPS = 5
"""Groups of steps whose means are compared: a minute each. Their median stands firm while 2 hold a standstill."""
_FEWEST, _SHORTEST = 3, 10.0
"""Steps, and seconds of steps, from which on a pace means something; the step that compiles is not among them."""
_TURNS = 9
"""Newest epochs whose ends are compared."""
_STANDSTILL, _LEAST_STANDSTILL = 10.0, 60.0
"""Number of usual steps, and least seconds, without a step, after which the pace of before says nothing."""


_LONGEST = 90 * 86400.0
"""Seconds of the longest training whose length counts. A longer one stands for "until somebody stops it": its share
would be 0 % for a day or longer, and its end lies beyond what anybody plans."""
_UNTIMED = 0.1
"""Seconds that a step counts while its time is not known: the limit is 78 million steps until then."""


class _Mark(NamedTuple):
    """Moment at which a number of steps was done, counted over all epochs; seconds without those between epochs."""

    steps: int
    at: float


class Pace:
    """Times of steps and epochs, by hooks in the training's thread, and the estimate, in the thread of the probe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before = 0
        """Steps of the epochs that have ended."""
        self._between = 0.0
        """Seconds that all ends of epochs took."""
        self._newest: tuple[int, _Mark] | None = None
        """Steps of this epoch that are done, and when; one object, as another thread reads it."""
        self._begun: float | None = None
        """Begin of this epoch."""
        self._turns: deque[float] = deque(maxlen=_TURNS)
        self._epochs: deque[float] = deque(maxlen=_TURNS)
        """Seconds that the newest epochs took, their ends included."""
        self._marks: deque[_Mark] = deque()
        self.ended_steps: int | None = None
        """Steps of the newest epoch that has ended in this `fit`."""

    @property
    def done(self) -> int:
        """Number of steps of this epoch that are done."""
        newest = self._newest
        return 0 if newest is None else newest[0]

    @property
    def between_epochs(self) -> float | None:
        """Seconds that the end of an epoch takes: validation, callbacks; None before the first."""
        return _usual(tuple(self._turns))

    def step_done(self, number: int) -> None:
        """Take in that this epoch has so many steps."""
        self._newest = (number, _Mark(self._before + number, self._clock() - self._between))

    def epoch_begun(self) -> None:
        """Take in the begin of an epoch, and with it the end of the one before."""
        now, newest = self._clock(), self._newest
        if self._begun is not None and newest is not None and newest[0]:
            done, mark = newest
            turn = max(0.0, now - self._between - mark.at)
            self._turns.append(turn)
            self._epochs.append(now - self._begun)
            self.ended_steps = done
            self._before, self._between = mark.steps, self._between + turn
        # The first step of all compiles: its time says nothing.
        self._newest = (0, _Mark(self._before, now - self._between)) if self._before else None
        self._begun = now

    def time_left(self, steps: int, epochs: int, *, is_step_done: bool = True) -> float | None:
        """Return the seconds until this epoch's `steps` and `epochs` further ones are done; None unless known.

        Called about once a second. The pace is the median of the means of groups of recent steps ("median of means",
        Nemirovsky and Yudin 1983): a checkpoint that returns counts, a standstill that was not repeated does not.
        Without `is_step_done` the steps are noted when they are scheduled: only whole epochs are compared then.
        """
        newest, between = self._newest, self._between
        turn = self.between_epochs
        if not is_step_done:
            return self._by_epochs(epochs)
        if newest is None:
            return None
        done, mark = newest
        self._note(mark)
        seconds = self._seconds_per_step()
        if seconds is None or done > steps:
            return None
        silent = self._clock() - between - mark.at
        # After the last step of an epoch, its end is awaited; in between, the next step.
        awaited = seconds if done < steps else (turn or math.inf)
        if silent > max(_LEAST_STANDSTILL, _STANDSTILL * awaited):
            return None
        left = (steps - done) * seconds + epochs * steps * seconds + (1 + epochs) * (turn or 0.0)
        return _rounded(max(0.0, left - min(silent, awaited)))

    def is_endless(self, steps: int) -> bool:
        """Decide whether so many steps take longer than any training, by the pace that `time_left` knew last."""
        return steps * (self._seconds_per_step() or _UNTIMED) > _LONGEST

    def _by_epochs(self, epochs: int) -> float | None:
        length = _usual(tuple(self._epochs))
        # The first epoch has the compilation in it.
        if length is None or self._begun is None or len(self._epochs) < 2:
            return None
        return _rounded(epochs * length + max(0.0, length - (self._clock() - self._begun)))

    def _note(self, mark: _Mark) -> None:
        marks = self._marks
        if not marks or mark.steps > marks[-1].steps:
            marks.append(mark)
        while len(marks) > _GROUPS + 1 and mark.at - marks[1].at > _WINDOW:
            marks.popleft()

    def _seconds_per_step(self) -> float | None:
        marks = self._marks
        if len(marks) < 2 or marks[-1].steps - marks[0].steps < _FEWEST or marks[-1].at - marks[0].at < _SHORTEST:
            return None
        count = min(_GROUPS, len(marks) - 1)
        edges = [marks[number * (len(marks) - 1) // count] for number in range(count + 1)]
        return median((end.at - begin.at) / (end.steps - begin.steps) for begin, end in pairwise(edges))


def _usual(values: Iterable[float]) -> float | None:
    known = [*values]
    # Of two the lower: the first validation traces its graph.
    return median_low(known) if known else None


def _rounded(seconds: float) -> float:
    """Return seconds as exact as they are known, at least 1: workers that agree then say the same."""
    grain = 1 if seconds < 120 else 10 if seconds < 3600 else 60
    return max(1.0, float(round(seconds / grain) * grain))
