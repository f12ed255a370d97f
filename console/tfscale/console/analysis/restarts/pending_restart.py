"""Restarts that are not measured yet: memory of the time before, of the gap, and of the loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tfscale.console.analysis.baselines.run_facts import Trained, changes
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.restarts.restart_words import Cost, Expected
from tfscale.console.analysis.restarts.step_rate import StepRate
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.newest_steps import NewestSteps
from tfscale.console.analysis.tasks.hangs import EVENT, STEPS
from tfscale.core.cluster.task import subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import TaskState

_CLOCKS_AGREE = 5.0
"""Seconds by which a gap may differ between the hosts' clocks and the observer's, who gets frames once a second and
some late; a larger difference means that a clock was set."""

Attempt = tuple[int, int]
"""(generation, attempt) of a task."""


@dataclass(frozen=True, slots=True)
class Straggling:
    """Stragglers that are open together."""

    names: frozenset[str] = frozenset()
    share: float = 0.0
    """Gain of the cluster without these stragglers."""

    @classmethod
    def of(cls, stragglers: Sequence[Diagnosis]) -> Straggling:
        cost = max((each.number("slowdown") or 1.0 for each in stragglers), default=1.0)
        return cls(frozenset(subject_owner(each.subject) for each in stragglers), cost - 1)

    def expected(self, restarted: Iterable[str]) -> Expected:
        """Return the gain that was expected of these tasks' restart."""
        left = self.names - set(restarted)
        return Expected() if left == self.names else Expected(self.share, bool(left))


@dataclass(slots=True)
class Gap:
    """Time since a task that trains was seen to have stopped."""

    before: StepRate | None
    begin: float
    """End of the newest step then, Unix seconds on the hosts' clocks."""
    observed: float
    """Time of that step's arrival, on the observer's clock."""
    made: int
    """Steps so far, then."""
    straggling: Straggling
    trained: Trained | None
    asked: float | None = None
    """Time at which the task was first seen to be asked to end."""
    ended: float | None = None
    """End of the task's process."""

    def note_stop(self, task: ObservedTask) -> None:
        """Take in how the task ends."""
        end = task.status.exit if task.status else None
        if self.asked is None and (task.state is TaskState.STOPPING or (end is not None and end.requested)):
            self.asked = task.at
        if end is not None:
            self.ended = end.at


def idle_seconds(gaps: Sequence[Gap], begin: float, before: StepRate | None, started: float | None) -> float:
    """Return the seconds from `begin` to the new start, `started`, in which no restart was under way."""
    if started is None:
        return 0.0
    event = max(EVENT, STEPS / before.per_second if before else 0.0)
    asked = min((gap.asked for gap in gaps if gap.asked is not None), default=None)
    ended = max((gap.ended for gap in gaps if gap.ended is not None), default=started)
    parts = [started - begin] if asked is None else [asked - begin, started - ended]
    return sum(seconds for seconds in parts if seconds > event)


@dataclass(slots=True)
class Loss:
    """Time without a new step, of workers that have begun anew; it ends with the first step beyond the earlier."""

    begin: float
    """End of the last step before, Unix seconds."""
    observed: float
    """Time of that step's arrival, on the observer's clock."""
    idle: float
    others: int = 0
    """Steps that other workers have made meanwhile."""

    def seconds(self, until: float, before: StepRate | None) -> float:
        """Return the seconds that the cluster has lost up to then."""
        lasted = max(until - self.begin, 1e-9)
        made = self.others / before.per_second / lasted if before else 0.0
        return max(0.0, lasted - self.idle) * max(0.0, 1 - made)


@dataclass(slots=True)
class Pending:
    """Restarts that are not measured yet: each followed before the one before was measured."""

    before: StepRate | None
    straggling: Straggling
    trained: Trained | None
    attempts: Mapping[str, Attempt]
    """Attempts of the tasks before."""
    stopped: frozenset[str]
    """Tasks that did not run before."""
    begin: float
    """End of the last step before the first restart, Unix seconds."""
    reached: int | None = None
    """Global step reached before the restart; None where no step is repeated, or steps have no numbers."""
    loss: Loss | None = None
    """None once a new step was made."""
    since: float = 0.0
    """Time at which steps after the last restart were first seen, on the observer's clock."""
    restarts: Counter[str] = field(default_factory=Counter)
    """Number of new begins of each pace; `cluster` counts all of them."""
    lost: float = 0.0
    """Seconds up to the first new step after each."""
    idle: float = 0.0
    repeated: int = 0
    end: float = 0.0
    """End of the first new step after the last restart, Unix seconds."""
    is_clear: bool = True
    """False where the clocks contradict each other."""
    is_least: bool = False
    """True where the repeated steps are unknown."""

    def lose(self, loss: Loss) -> None:
        """Take in that workers have begun anew; a loss that lasts while steps are repeated becomes longer."""
        if self.loss is None:
            self.loss = loss
        else:
            self.loss.idle += loss.idle

    def repeat(self, ends: Floats, number: int | None, local_steps: int, now: float) -> None:
        """Take in steps after a restart by their (k,) ends; `number` is the global step of the last."""
        if self.loss is None or not len(ends):
            return
        new = len(ends)
        if self.reached is not None and number is not None:
            new = min(new, max(0, math.ceil((number - self.reached) / local_steps)))
        self.repeated += (len(ends) - new) * local_steps
        if new:
            self.close(float(ends[-new]), now)

    def close(self, end: float, now: float) -> None:
        """Note when the first new step ended, Unix seconds; that was seen at `now` on the observer's clock."""
        assert self.loss is not None
        self.is_clear &= abs((end - self.loss.begin) - (now - self.loss.observed)) <= _CLOCKS_AGREE
        self.lost += self.loss.seconds(end, self.before)
        self.idle += self.loss.idle
        self.end, self.loss = end, None


def why_not_compared(before: Trained | None, now: Trained | None) -> tuple[str, list[str]]:
    """Return (why the rates are not compared, empty if they are; phrases about what is different since)."""
    if before is None or now is None:
        return "what was trained is not known", []
    changed = [*changes(before.facts, now.facts)]
    if before.size != now.size:
        return f"{now.size} replicas, before {before.size}", changed
    old, new = before.facts.model, now.facts.model
    if old is not None and new is not None and old != new:
        return "; ".join(["another model", *changed]), changed
    if not before.facts.is_same_work(now.facts):
        return "; ".join(changed) or "whether a step is the same work is not known", changed
    return "", changed


def cost_of(pending: Pending, steps: NewestSteps, after: StepRate, local_steps: int) -> Cost | None:
    """Return the restart's cost; while steps are repeated, a forecast. None where the clocks contradict each other."""
    if not pending.is_clear:
        return None
    if pending.loss is None:
        return Cost(pending.lost, pending.repeated, is_least=pending.is_least)
    left = max(0, (pending.reached or 0) - (steps.number or 0))
    seconds = pending.loss.seconds(steps.end, pending.before) + left / local_steps / after.per_second
    return Cost(pending.lost + seconds, pending.repeated, left)
