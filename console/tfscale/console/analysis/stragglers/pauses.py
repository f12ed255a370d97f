"""Recurring pauses of one subject: it is as fast as its peers in nearly all steps, and costs much.

Medians do not show pauses, and each is too short to be a stillness of the cluster. A pause lies within a step, or is an
activity between two steps: the probe leaves a task's long activities out of its steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import numpy as np
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.impute import impute
from tfscale.core.records.diagnosis import BEGAN, EARLIER, Diagnosis, Evidence
from tfscale.core.records.probe_status import Activity
from tfscale.core.records.step_batch import LAG_PHASES
from tfscale.core.text import duration, since_when

_SECONDS, _STEPS = 0.5, 3.0
"""Seconds, and multiple of the usual step, by which a pausing subject is later than the next: shorter pauses are
noise of hosts, or count as slowness; a pause of half a second is felt by anybody who watches the rate."""
_WINDOW, _FEWEST = 120.0, 3
"""Seconds over which pauses are counted, and their least number: two pauses have one distance, and no rhythm, and a
fourth would delay the finding by another period."""
_COST_ON, _COST_OFF = 0.05, 0.03
"""Shares of the time from which on pauses are told, and below which they are over: a checkpoint of 2 s in a minute
costs 3 % and is as it should be."""
_SERIOUS = 0.2
"""Share of the time from which on pauses are serious, near the quarter that a serious straggler costs."""
_OVERDUE = 2.0
"""Multiple of the longest distance between two pauses after which they are over: the next pause is overdue."""
_SETTLE, _FORGET = 3.0, 15.0
"""Seconds after a pause's end in which others may report an activity at the same time, and after which it is
forgotten."""
_IN_STEP = {"idle": "host", "compile": "compute"}
"""Phase of which an activity is a part."""
_WHERE = {
    "update": "the update of its weights",
    "host": "its own Python (garbage collection, a callback)",
    "input": "its input",
    "compute": "its compute (or functions that are traced anew)",
    "checkpoint": "a checkpoint that it alone saves",
    "evaluation": "an evaluation that it alone makes",
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Time in which all others waited for a single subject."""

    at: float
    """End of the pause, Unix seconds."""
    seconds: float
    """Time by which the subject was later than the next: the cost of the pause to all."""
    where: str
    """A phase, `checkpoint` or `evaluation`."""


@dataclass(slots=True)
class _Activity:
    """Time in which a task did something else than steps."""

    where: str
    end: float | None = None
    is_counted: bool = False


@dataclass(slots=True)
class PauseWatch:
    """Memory of the pauses of the newest minutes."""

    _pauses: dict[str, deque[Pause]] = field(default_factory=dict)
    _activities: dict[tuple[str, float], _Activity] = field(default_factory=dict)
    """Activities of the newest seconds, by task and begin."""
    _open: dict[str, tuple[float, bool]] = field(default_factory=dict)
    """Begin of the first known pause of each subject with open pauses, Unix seconds, and True if it paused before."""
    _first: float | None = None
    """End of the first step that is known, Unix seconds."""
    _is_cut: bool = False
    """True where steps were made before the first step that is known."""
    _newest: float = 0.0
    _consumed: int = -1

    def restart(self) -> None:
        """Forget all: a new attempt began."""
        self._pauses, self._open, self._activities, self._first, self._consumed = {}, {}, {}, None, -1

    def count(self, fresh: AlignedSteps) -> None:
        """Take in steps; known steps are left out."""
        fresh = fresh.after(self._consumed)
        if len(fresh) == 0 or len(fresh.subjects) < 2:
            return
        self._consumed = int(fresh.sequence[-1])
        if self._first is None:
            self._first, self._is_cut = float(fresh.end[0]), bool(fresh.sequence[0] > WARM_UP_STEPS)
        self._newest = max(self._newest, float(fresh.end[-1]))
        for subject, pause in [*_pauses(impute(fresh)), *self._between_steps()]:
            self._pauses.setdefault(subject, deque()).append(pause)
        for pauses in self._pauses.values():
            while pauses and pauses[0].at < self._newest - _WINDOW:
                pauses.popleft()

    def note_activities(self, task: str, activities: Iterable[Activity]) -> None:
        """Take in a task's activities, past and present."""
        for activity in activities:
            if activity.end is None or activity.end - activity.begin >= _SECONDS:
                where = _IN_STEP.get(activity.kind.value, activity.kind.value)
                known = self._activities.setdefault((task, activity.begin), _Activity(where))
                known.end = activity.end
            else:
                # It may have been reported while it lasted.
                self._activities.pop((task, activity.begin), None)

    def _between_steps(self) -> Iterator[tuple[str, Pause]]:
        """Yield the activities of a single task, each some seconds after its end."""
        settled = [
            (task, begin, activity)
            for (task, begin), activity in self._activities.items()
            if activity.end is not None and not activity.is_counted and activity.end <= self._newest - _SETTLE
        ]
        times = [(begin, math.inf if each.end is None else each.end) for (_, begin), each in self._activities.items()]
        begins, ends = np.array(times or [(0.0, 0.0)]).T
        owners = np.array([task for task, _ in self._activities])
        for task, begin, activity in settled:
            activity.is_counted, end = True, activity.end or begin
            if not ((begins < end) & (ends > begin) & (owners != task)).any():
                yield task, Pause(end, end - begin, activity.where)
        old = self._newest - _FORGET
        self._activities = {key: each for key, each in self._activities.items() if each.end is None or each.end > old}

    def diagnose(self, stragglers: Container[str]) -> list[Diagnosis]:
        """Return the subjects, except `stragglers`, whose pauses cost much now."""
        costs = {
            subject: cost for subject in self._pauses if (cost := self._cost(subject)) and subject not in stragglers
        }
        self._open = {subject: self._open.get(subject, self._since(subject)) for subject in costs}
        return [self._describe(subject, cost) for subject, cost in costs.items()]

    def _cost(self, subject: str) -> float | None:
        """Return the share of the newest time that a subject's pauses cost; None where too low."""
        pauses = self._pauses[subject]
        if len(pauses) < _FEWEST or self._first is None:
            return None
        if self._newest - pauses[-1].at > _OVERDUE * max(_distances(pauses)):
            return None
        span = self._newest - max(self._first, self._begin(subject))
        cost = sum(pause.seconds for pause in pauses) / max(span, 1e-9)
        return cost if cost >= (_COST_OFF if subject in self._open else _COST_ON) else None

    def _begin(self, subject: str) -> float:
        first = self._pauses[subject][0]
        return first.at - first.seconds

    def _since(self, subject: str) -> tuple[float, bool]:
        """Return the begin of the first known pause, and whether the pause before it may be too old to be known."""
        begin, usual = self._begin(subject), median(_distances(self._pauses[subject]))
        return begin, self._is_cut and self._first is not None and begin - self._first < usual

    def _describe(self, subject: str, cost: float) -> Diagnosis:
        pauses, (begin, began_earlier) = self._pauses[subject], self._open[subject]
        usual = median(pause.seconds for pause in pauses)
        places = [pause.where for pause in pauses]
        where = max(set(places), key=places.count)
        apart = median(_distances(pauses))
        sentence = (
            f"{subject} pauses again and again ({since_when(begin, began_earlier)}): for {duration(usual)} about every "
            f"{duration(apart)}, in {_WHERE[where]}; the others wait. The cluster loses {min(cost, 1.0):.0%}."
        )
        evidence: Evidence = {
            "cost": min(cost, 1.0),
            "pauses": float(len(pauses)),
            "seconds": usual,
            "every": apart,
            "phase": where,
            **({BEGAN: EARLIER} if began_earlier else {}),
        }
        severity = "serious" if cost >= _SERIOUS else "warning"
        return Diagnosis("pauses", subject, begin, None, severity, sentence, evidence=evidence)


def _distances(pauses: Sequence[Pause]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(pauses)]


def _pauses(steps: AlignedSteps) -> Iterator[tuple[str, Pause]]:
    """Yield the pauses among these steps, each with its subject."""
    lag = steps.lag
    second, latest = np.partition(lag, (-2, -1), axis=1)[:, -2:].T
    late, usual = latest - second, float(np.median(second))
    for row in np.flatnonzero(late >= max(_SECONDS, _STEPS * usual)).tolist():
        column = int(np.argmax(lag[row]))
        phase = LAG_PHASES[int(np.argmax(steps.phases[:-1, row, column]))]
        yield steps.subjects[column], Pause(float(steps.end[row]), float(late[row]), phase)
