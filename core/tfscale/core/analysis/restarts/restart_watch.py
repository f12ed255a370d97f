"""Restarts of tasks that train: what each has cost and gained, told once, as soon as it is measured.

The rule, and where it is silent: docs/reference/diagnoses.md#restarts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tfscale.core.analysis.baselines.run_facts import Trained, changes
from tfscale.core.analysis.baselines.step_blocks import WARM_UP
from tfscale.core.analysis.restarts.restart_words import Cost, Expected, MeasuredRestart, told
from tfscale.core.analysis.restarts.step_rate import LEAST_BLOCKS, RateBlocks, StepRate
from tfscale.core.analysis.steps.newest_steps import NewestSteps
from tfscale.core.analysis.steps.step_table import Floats
from tfscale.core.analysis.stragglers.input_cost import AT_MOST
from tfscale.core.analysis.tasks.hangs import EVENT, STEPS
from tfscale.core.analysis.tasks.observed_task import WARM_UP_STEPS, ObservedTask
from tfscale.core.cluster.task import CLUSTER, Role, subject_owner
from tfscale.core.records import Diagnosis, TaskState

_TRAINING = (Role.CHIEF, Role.WORKER, Role.PS)
_MEASURED = 30.0
"""Seconds after the warm-up over which the rate after a restart is measured (chosen, as for slowdowns)."""
_CLOCKS_AGREE = 5.0
"""Seconds by which a gap may differ between the hosts' clocks and the observer's, to which frames come once a second
(chosen); beyond it a clock was set."""

Attempt = tuple[int, int]
"""(generation, attempt) of a task."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts of an evaluation beside the steps."""

    now: float
    """Unix seconds on the observer's clock."""
    stragglers: Sequence[Diagnosis] = ()
    """The open ones."""
    trained: Trained | None = None
    """None unknown."""
    local_steps: int = 1
    """Global steps that one step makes here."""


@dataclass(frozen=True, slots=True)
class _Straggling:
    """Stragglers that are open together."""

    names: frozenset[str] = frozenset()
    share: float = 0.0
    """Gain of the cluster without them."""
    is_bound: bool = False

    @classmethod
    def of(cls, stragglers: Sequence[Diagnosis]) -> _Straggling:
        cost = max((float(each.evidence.get("slowdown") or 1.0) for each in stragglers), default=1.0)
        is_bound = any(each.evidence.get("cost_is") == AT_MOST for each in stragglers)
        return cls(frozenset(subject_owner(each.subject) for each in stragglers), cost - 1, is_bound)

    def expected(self, restarted: Iterable[str]) -> Expected:
        """Return what the restart of these tasks was expected to gain."""
        left = self.names - set(restarted)
        return Expected() if left == self.names else Expected(self.share, self.is_bound or bool(left))


@dataclass(slots=True)
class _Gap:
    """Time since tasks that train are seen to have stopped."""

    before: StepRate | None
    begin: float
    """End of the newest step then, Unix seconds on the hosts' clocks."""
    observed: float
    """Time at which that step came, on the observer's clock."""
    asked: float | None = None
    """Time at which one of the tasks was first seen to be asked to end."""
    ended: float | None = None
    """End of the last process that has ended."""
    others: int = 0
    """Steps that workers have made which have not stopped."""
    blocks: RateBlocks = field(default_factory=RateBlocks)
    """Blocks of these steps."""

    def note(self, stopped: Iterable[ObservedTask]) -> None:
        """Take in how tasks end."""
        for task in stopped:
            end = task.status.exit if task.status else None
            if self.asked is None and (task.state is TaskState.STOPPING or (end is not None and end.requested)):
                self.asked = task.at
            if end is not None:
                self.ended = max(self.ended or 0.0, end.at)

    def idle(self, started: float | None) -> float:
        """Return the seconds in which no restart was under way, up to the new start of the tasks, Unix seconds."""
        if started is None:
            return 0.0
        event = max(EVENT, STEPS / self.before.per_second if self.before else 0.0)
        if self.asked is None:
            parts = [started - self.begin]
        else:
            parts = [self.asked - self.begin, started - (self.ended or started)]
        return sum(seconds for seconds in parts if seconds > event)


@dataclass(slots=True)
class _Loss:
    """Time without a new step, of workers that have begun anew; it ends with the first step beyond those of before."""

    begin: float
    """End of the last step before, Unix seconds."""
    observed: float
    """Time at which that step came, on the observer's clock."""
    idle: float
    others: int = 0
    """Steps that other workers have made meanwhile."""

    def seconds(self, until: float, before: StepRate | None) -> float:
        """Return the seconds that the cluster has lost up to then."""
        lasted = max(until - self.begin, 1e-9)
        made = self.others / before.per_second / lasted if before else 0.0
        return max(0.0, lasted - self.idle) * max(0.0, 1 - made)


@dataclass(slots=True)
class _Pending:
    """Restart that is not measured yet; several where each came before the one before was measured."""

    before: StepRate | None
    straggling: _Straggling
    trained: Trained | None
    attempts: Mapping[str, Attempt]
    """Attempts of the tasks before."""
    begin: float
    """End of the last step before the first of them, Unix seconds."""
    reached: int | None
    """Global step reached before; None where nothing is repeated, or steps have no numbers."""
    loss: _Loss | None = None
    """None once a new step was made."""
    since: float = 0.0
    """Time at which the steps after the last of them were first seen, on the observer's clock."""
    restarts: Counter[str] = field(default_factory=Counter)
    """How often each pace began anew; `cluster` all of them."""
    lost: float = 0.0
    """Seconds up to the first new step after each."""
    idle: float = 0.0
    repeated: int = 0
    end: float = 0.0
    """End of the first new step after the last of them, Unix seconds."""
    is_clear: bool = True
    """False where the clocks contradict each other."""
    is_least: bool = False
    """True where it is not known which steps are repeated."""

    def lose(self, loss: _Loss) -> None:
        """Note that workers have begun anew; a loss that goes on while steps are repeated becomes longer."""
        if self.loss is None:
            self.loss = loss
        else:
            self.loss.idle += loss.idle

    def repeat(self, ends: Floats, number: int | None, local_steps: int, now: float) -> None:
        """Take in steps after a restart by their (k,) ends; `number` is the global step of the last of them."""
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


class RestartWatch:
    """Memory of the rate of steps, and of restarts that are not measured yet."""

    def __init__(self) -> None:
        self._steps: NewestSteps | None = None
        """The newest steps as they were seen last; None while nothing of before is known."""
        self._came = 0.0
        """Time at which the newest step came, on the observer's clock."""
        self._is_sure = True
        """False where steps may have been made since then that nobody has told of."""
        self._blocks = RateBlocks()
        self._warm = 0.0
        """Time from which on steps count for the rate, on the observer's clock."""
        self._attempts: Mapping[str, Attempt] = {}
        self._straggling = _Straggling()
        self._trained: Trained | None = None
        self._gap: _Gap | None = None
        self._pending: _Pending | None = None

    def fold(self, steps: NewestSteps | None, tasks: Sequence[ObservedTask], known: Circumstances) -> list[Diagnosis]:
        """Take in the newest steps, and return the restart that is measured now: at most one."""
        before = self._steps
        if steps is None or (before and before.attempt != steps.attempt and not steps.paces):
            return []
        training = [task for task in tasks if task.task.role in _TRAINING and task.status is not None]
        stopped = [task for task in training if task.state is not TaskState.RUNNING]
        if _has_finished(training):
            self._steps = None
            return []
        if before is None or _is_other_program(before, steps):
            self._begin(steps, training, known.now)
            return []
        self._note_stops(stopped, training, known)
        anew = _anew(before, steps)
        ends, is_whole = _fresh(before, steps, anew)
        if anew and not (self._is_sure and is_whole and math.isfinite(before.end)):
            self._begin(steps, training, known.now)
            return []
        if anew:
            self._restarted(before, steps, anew, training, known)
        self._take(ends, is_whole, steps, known)
        self._steps = (
            steps if steps.attempt != before.attempt else replace(steps, paces={**before.paces, **steps.paces})
        )
        if self._gap is None and not stopped and len(ends):
            self._note_circumstances(training, known)
        return self._told(training, known)

    def _begin(self, steps: NewestSteps, training: Sequence[ObservedTask], now: float) -> None:
        """Begin anew: of what was before nothing is known, or it is over."""
        self._gap = self._pending = None
        self._blocks, self._is_sure = RateBlocks(), True
        started = max((task.status.started or 0.0 for task in training if task.status), default=0.0)
        age = steps.end - started
        self._steps, self._came, self._attempts = steps, now, _attempts(training)
        self._warm = now + (min(WARM_UP, max(0.0, WARM_UP - age)) if age >= 0 else 0.0)

    def _note_stops(
        self, stopped: Sequence[ObservedTask], training: Sequence[ObservedTask], known: Circumstances
    ) -> None:
        self._is_sure &= _are_steps_told(training, known.now)
        if stopped and self._gap is None:
            self._open_gap()
        if self._gap is None:
            return
        self._gap.note(stopped)
        if not stopped and all(self._attempts.get(task.name, task.attempt) == task.attempt for task in training):
            self._gap = None

    def _open_gap(self) -> _Gap:
        assert self._steps is not None
        self._gap = _Gap(self._blocks.rate(), self._steps.end, self._came)
        self._blocks.interrupt()
        return self._gap

    def _restarted(
        self,
        before: NewestSteps,
        steps: NewestSteps,
        anew: Mapping[str, float],
        training: Sequence[ObservedTask],
        known: Circumstances,
    ) -> None:
        """Note that workers have begun anew, each with its first step at the time in `anew`."""
        gap, is_all = self._gap or self._open_gap(), steps.attempt != before.attempt
        pending = self._pending
        if pending is None:
            attempts = self._attempts
            rate, begin = (gap.blocks.rate() or gap.before, before.end) if is_all else (gap.before, gap.begin)
            pending = _Pending(rate, self._straggling, self._trained, attempts, begin, before.number)
        elif is_all and before.number is not None:
            pending.reached = max(pending.reached or 0, before.number)
        starts = [
            task.status.started for task in training if task.status and task.attempt != self._attempts.get(task.name)
        ]
        started = min((start for start in starts if start is not None), default=None)
        if is_all:
            gap.begin = before.end
            pending.is_least |= before.number is None or steps.number is None
            pending.lose(_Loss(before.end, self._came, gap.idle(started)))
        else:
            pending.lose(_Loss(gap.begin, gap.observed, gap.idle(started), gap.others))
            pending.close(max(anew.values()), known.now)
        pending.restarts.update([CLUSTER] if is_all else list(anew))
        pending.since = known.now
        self._pending, self._gap, self._attempts = pending, None, _attempts(training)
        self._blocks, self._warm = RateBlocks(), known.now + WARM_UP

    def _take(self, ends: Floats, is_whole: bool, steps: NewestSteps, known: Circumstances) -> None:
        """Take in the ends of steps since the last evaluation; some may be missing where they are not `is_whole`."""
        if not len(ends):
            return
        self._came, self._is_sure = known.now, True
        if self._pending is not None:
            self._pending.repeat(ends, steps.number, known.local_steps, known.now)
        if self._gap is not None:
            self._gap.others += len(ends)
            self._gap.blocks.take(ends, len(steps.paces))
        elif known.now >= self._warm:
            if not is_whole:
                self._blocks.interrupt()
            self._blocks.take(ends, len(steps.paces))

    def _note_circumstances(self, training: Sequence[ObservedTask], known: Circumstances) -> None:
        """Note what holds while all train, for the case that they are restarted next."""
        self._straggling, self._trained = _Straggling.of(known.stragglers), known.trained
        if len(self._blocks) <= LEAST_BLOCKS:
            # At the first steps some agents may not have been heard yet.
            self._attempts = _attempts(training)

    def _told(self, training: Sequence[ObservedTask], known: Circumstances) -> list[Diagnosis]:
        """Return the restart once the steps after it are measured."""
        pending, steps = self._pending, self._steps
        if pending is None or steps is None or self._gap is not None:
            return []
        after = self._blocks.rate()
        if after is None or known.now < pending.since + WARM_UP + _MEASURED:
            return []
        self._pending = None
        restarted = {task.name: task for task in training if pending.attempts.get(task.name) != task.attempt}
        if not restarted:
            return []
        why_not, changed = _compared(pending.trained, known.trained)
        measured = MeasuredRestart(
            tasks=tuple(restarted),
            others=len(restarted) < len(training),
            count=max(pending.restarts.values()),
            begin=pending.begin,
            end=steps.end if pending.loss else pending.end,
            now=steps.end,
            idle=pending.idle + (pending.loss.idle if pending.loss else 0.0),
            cost=_cost(pending, steps, after, known.local_steps),
            before=pending.before,
            after=after,
            expected=pending.straggling.expected(restarted),
            why_not_compared="too few steps before" if pending.before is None else why_not,
            changed=changed,
            reason=next((task.status.reason for task in restarted.values() if task.status), ""),
        )
        return [told(measured)]


def _attempts(training: Sequence[ObservedTask]) -> Mapping[str, Attempt]:
    return {task.name: task.attempt for task in training}


def _is_other_program(before: NewestSteps, steps: NewestSteps) -> bool:
    """Decide whether another process of the same start numbers the steps: that was no restart."""
    return before.attempt == steps.attempt and before.part != steps.part


def _are_steps_told(training: Sequence[ObservedTask], now: float) -> bool:
    """Decide whether somebody would tell of steps, or it is known that there are none."""
    told_by = _leading(training)
    return not told_by or any(not task.running or not task.is_silent(now) for task in told_by)


def _leading(training: Sequence[ObservedTask]) -> Sequence[ObservedTask]:
    """Return the chief of workers at their own pace, else all workers."""
    is_served = any(task.task.role is Role.PS for task in training)
    chiefs = [task for task in training if task.task.role is Role.CHIEF] if is_served else []
    return chiefs or [task for task in training if task.meets]


def _has_finished(training: Sequence[ObservedTask]) -> bool:
    """Decide whether the training has ended well by itself, so that what is started next is another one."""
    ends = [task.status.exit if task.is_over and task.status else None for task in _leading(training)]
    return bool(ends) and all(end is not None and end.code == 0 and not end.requested for end in ends)


def _anew(before: NewestSteps, steps: NewestSteps) -> Mapping[str, float]:
    """Return the end of the first step of each pace that has begun anew since before, Unix seconds."""
    is_all = steps.attempt != before.attempt
    return {
        name: float(np.fmin.reduce(pace.ends))
        for name, pace in steps.paces.items()
        if len(pace.ends) and (is_all or (name in before.paces and before.paces[name].attempt != pace.attempt))
    }


def _fresh(before: NewestSteps, steps: NewestSteps, anew: Mapping[str, float]) -> tuple[Floats, bool]:
    """Return ((k,) ends of the steps since before, rising; True where these are all of them)."""
    parts, is_whole = [np.empty(0)], True
    for name, pace in steps.paces.items():
        known = before.paces.get(name)
        if name in anew:
            parts.append(pace.ends)
            is_whole &= pace.newest - len(pace.ends) < WARM_UP_STEPS
        elif known is not None and pace.newest > known.newest:
            parts.append(pace.ends[-(pace.newest - known.newest) :])
            is_whole &= pace.newest - known.newest <= len(pace.ends)
    ends = np.concatenate(parts)
    ends = ends[np.isfinite(ends)]
    return (np.sort(ends) if len(steps.paces) > 1 else ends), is_whole


def _compared(before: Trained | None, now: Trained | None) -> tuple[str, list[str]]:
    """Return (why the rates are not compared, empty if they are; what is different since, as phrases)."""
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


def _cost(pending: _Pending, steps: NewestSteps, after: StepRate, local_steps: int) -> Cost | None:
    """Return what it has cost; while steps are repeated, a forecast. None where the clocks contradict each other."""
    if not pending.is_clear:
        return None
    if pending.loss is None:
        return Cost(pending.lost, pending.repeated, is_least=pending.is_least)
    left = max(0, (pending.reached or 0) - (steps.number or 0))
    seconds = pending.loss.seconds(steps.end, pending.before) + left / local_steps / after.per_second
    return Cost(pending.lost + seconds, pending.repeated, left)
