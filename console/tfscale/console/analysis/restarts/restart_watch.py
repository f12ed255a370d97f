"""Restarts of tasks that train: the cost and gain of each, told once, as soon as it is measured.

The rule, and where it is silent: docs/reference/diagnoses.md#restarts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tfscale.console.analysis.baselines.part_history import WARM_UP
from tfscale.console.analysis.baselines.run_facts import Trained
from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS, ObservedTask
from tfscale.console.analysis.restarts.pending_restart import (
    Attempt,
    Gap,
    Loss,
    Pending,
    Straggling,
    cost_of,
    idle_seconds,
    why_not_compared,
)
from tfscale.console.analysis.restarts.restart_words import MeasuredRestart, restart_diagnosis
from tfscale.console.analysis.restarts.step_rate import LEAST_BLOCKS, RateHistory, StepRate
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.newest_steps import ALL, NewestSteps
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.core.cluster.task import CLUSTER, Role, subject_order, subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import TaskState

_TRAINING = (Role.CHIEF, Role.WORKER, Role.PS)
_MEASURED = 30.0
"""Seconds after the warm-up over which the rate after a restart is measured, as for slowdowns: over less a burst of
noise would be its gain, over more it is told later."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts of an evaluation beside the steps."""

    now: float
    """Unix seconds on the observer's clock."""
    stragglers: Sequence[Diagnosis] = ()
    """Open stragglers."""
    trained: Trained | None = None
    """None unknown."""
    local_steps: int = 1
    """Global steps in one step here."""


class RestartWatch(Detector):
    """Memory of the rate of steps, and of restarts that are not measured yet."""

    def __init__(self, tasks: Sequence[ObservedTask]) -> None:
        self._tasks = tuple(task for task in tasks if task.task.role in _TRAINING)
        self._reporting = _reporters(self._tasks)
        self._steps: NewestSteps | None = None
        """The newest steps as they were seen last; None while nothing of before is known."""
        self._came = 0.0
        """Time at which the newest step came, on the observer's clock."""
        self._clock_set = -math.inf
        """Time at which the clock of a host was set last, on the observer's clock."""
        self._made = 0
        """Steps so far."""
        self._is_sure = True
        """False where steps may have been made since then that nobody has told of."""
        self._blocks = RateHistory()
        """Blocks of the steps of those that run now."""
        self._before: StepRate | None = None
        """The last rate that was known before some task stopped or began."""
        self._warm = 0.0
        """Time from which on steps count for the rate, on the observer's clock."""
        self._stopped: frozenset[str] = frozenset()
        self._gaps: dict[str, Gap] = {}
        """Gaps of the tasks that have stopped, or begun anew and made no step yet; the newest last."""
        self._attempts: Mapping[str, Attempt] = {}
        self._straggling = Straggling()
        self._trained: Trained | None = None
        self._pending: Pending | None = None

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the restart whose cost and gain were measured since the last evaluation: at most one."""
        if any(task.clock_set for task in self._tasks):
            self._clock_set = view.now
        stragglers = [each for each in view.found if each.kind == "straggler"]
        trained = view.trained
        if view.steps.is_asynchronous and trained is not None:
            # Facts are of the one worker whose steps stand for all, and that may be another one since.
            trained = replace(trained, facts=replace(trained.facts, hosts=()))
        return self._measure(view.steps.newest, Circumstances(view.now, stragglers, trained, view.steps.local_steps))

    def _measure(self, steps: NewestSteps | None, known: Circumstances) -> list[Diagnosis]:
        before = self._steps
        if steps is None or (before and before.attempt != steps.attempt and not steps.paces):
            return []
        stopped = {
            task.name: task
            for task in self._tasks
            if (status := task.status) is not None and status.state is not TaskState.RUNNING
        }
        if stopped and _has_finished(self._reporting):
            self._steps = None
            return []
        if before is None or _is_other_program(before, steps):
            self._begin(steps, known.now)
            return []
        self._note_stops(stopped)
        anew = _anew(before, steps)
        ends, is_whole = _fresh(before, steps, anew)
        is_heard = any(not task.running or not task.is_silent(known.now) for task in self._reporting)
        self._is_sure &= is_heard or len(ends) > 0
        if anew and not (self._is_sure and is_whole and math.isfinite(before.end)):
            self._begin(steps, known.now)
            return []
        if anew and steps.attempt != before.attempt:
            self._all_restarted(before, steps, known)
        elif anew:
            self._some_restarted(anew, known)
        self._take(ends, is_whole, steps, known)
        is_new = steps.attempt != before.attempt
        self._steps = steps if is_new else replace(steps, paces={**before.paces, **steps.paces})
        if len(ends) and self._stopped == frozenset(stopped) and not (stopped and ALL in steps.paces):
            self._note_circumstances(known)
        self._stopped = frozenset(stopped)
        return self._measured(known)

    def _begin(self, steps: NewestSteps, now: float) -> None:
        """Begin anew: the time before is unknown or over."""
        self._pending, self._before, self._is_sure = None, None, True
        self._gaps, self._blocks = {}, RateHistory()
        started = max((task.status.started or 0.0 for task in self._tasks if task.status), default=0.0)
        age = steps.end - started
        self._steps, self._came, self._attempts = steps, now, self._present()
        self._warm = now + (min(WARM_UP, max(0.0, WARM_UP - age)) if age >= 0 else 0.0)

    def _present(self) -> Mapping[str, Attempt]:
        return {task.name: task.attempt for task in self._tasks if task.status}

    def _note_stops(self, stopped: Mapping[str, ObservedTask]) -> None:
        if self._stopped != stopped.keys():
            # Another number of workers makes steps at another rate.
            self._before, self._blocks = self._blocks.rate() or self._before, RateHistory()
        for name, task in stopped.items():
            if name not in self._gaps:
                self._gaps[name] = self._gap()
            self._gaps[name].note_stop(task)
        if self._gaps:
            present = self._present()
            left = stopped.keys() | {name for name in present if present[name] != self._attempts.get(name)}
            self._gaps = {name: gap for name, gap in self._gaps.items() if name in left}

    def _gap(self) -> Gap:
        assert self._steps is not None
        before = self._blocks.rate() or self._before
        return Gap(before, self._steps.end, self._came, self._made, self._straggling, self._trained)

    def _all_restarted(self, before: NewestSteps, steps: NewestSteps, known: Circumstances) -> None:
        """Take in that all steps are numbered anew."""
        gaps = [*self._gaps.values()] or [self._gap()]
        pending = self._pending
        if pending is None:
            pending = self._begun(gaps[-1], before.end)
        if before.number is not None:
            pending.reached = max(pending.reached or 0, before.number)
        pending.is_least |= before.number is None or steps.number is None
        idle = idle_seconds(gaps, before.end, pending.before, self._started(self._tasks))
        pending.lose(Loss(before.end, self._came, idle))
        pending.is_clear &= self._clock_set <= self._came
        self._go_on(pending, [CLUSTER], known)
        self._gaps = {}

    def _some_restarted(self, anew: Mapping[str, float], known: Circumstances) -> None:
        """Take in that these workers have made their first step after a restart, while others went on."""
        for name, end in anew.items():
            gap = self._gaps.pop(name, None) or self._gap()
            pending = self._pending or self._begun(gap, gap.begin)
            tasks = [task for task in self._tasks if task.name == subject_owner(name)]
            idle = idle_seconds([gap], gap.begin, pending.before, self._started(tasks))
            pending.lose(Loss(gap.begin, gap.observed, idle, self._made - gap.made))
            pending.is_clear &= self._clock_set <= gap.observed
            pending.close(end, known.now)
            self._go_on(pending, [name], known)

    def _begun(self, gap: Gap, begin: float) -> Pending:
        return Pending(gap.before, gap.straggling, gap.trained, self._attempts, self._stopped_before(), begin)

    def _stopped_before(self) -> frozenset[str]:
        """Return the tasks that did not run although no restart had stopped them."""
        present = self._present()
        return frozenset(name for name in self._stopped if present.get(name) == self._attempts.get(name))

    def _started(self, tasks: Iterable[ObservedTask]) -> float | None:
        """Return the earliest start, Unix seconds, among these tasks that have begun anew."""
        starts = [
            task.status.started for task in tasks if task.status and task.attempt != self._attempts.get(task.name)
        ]
        return min((start for start in starts if start is not None), default=None)

    def _go_on(self, pending: Pending, names: Sequence[str], known: Circumstances) -> None:
        """Measure the rate after a restart from now on."""
        pending.restarts.update(names)
        pending.since = known.now
        self._pending, self._attempts = pending, self._present()
        self._blocks, self._warm = RateHistory(), known.now + WARM_UP

    def _take(self, ends: Floats, is_whole: bool, steps: NewestSteps, known: Circumstances) -> None:
        """Take in the ends of steps since the last evaluation; some may be missing unless `is_whole`."""
        if not len(ends):
            return
        self._came, self._is_sure, self._made = known.now, True, self._made + len(ends)
        if self._pending is not None:
            self._pending.repeat(ends, steps.number, known.local_steps, known.now)
        if known.now >= self._warm:
            if not is_whole:
                self._blocks.interrupt()
            self._blocks.append(ends, len(steps.paces))

    def _note_circumstances(self, known: Circumstances) -> None:
        """Take in the circumstances while all running tasks train, for a restart that may come next."""
        self._straggling, self._trained = Straggling.of(known.stragglers), known.trained
        if not self._gaps and len(self._blocks) <= LEAST_BLOCKS:
            # At the first steps some agents may not have been heard yet.
            self._attempts = self._present()

    def _measured(self, known: Circumstances) -> list[Diagnosis]:
        """Return the restart once the steps after it are measured."""
        pending, steps, after = self._pending, self._steps, self._blocks.rate()
        if pending is None or steps is None or after is None or known.now < pending.since + WARM_UP + _MEASURED:
            return []
        self._pending = None
        present = [task for task in self._tasks if task.status]
        restarted = {task.name: task for task in present if pending.attempts.get(task.name) != task.attempt}
        starts = [task.status for task in restarted.values() if task.status]
        # Without a rate it is not known what the others made while some began anew.
        if not restarted or (pending.before is None and CLUSTER not in pending.restarts):
            return []
        why_not, changed = why_not_compared(pending.trained, known.trained)
        if left := sorted(self._stopped - pending.stopped, key=subject_order):
            why_not = f"{names_of(left)} {'does' if len(left) == 1 else 'do'} not run any more"
        if pending.before is None:
            why_not = "too few steps before"
        measured = MeasuredRestart(
            tasks=tuple(restarted),
            others=len(restarted) < len(present),
            count=max(pending.restarts.values()),
            begin=pending.begin,
            end=steps.end if pending.loss else pending.end,
            now=steps.end,
            idle=pending.idle + (pending.loss.idle if pending.loss else 0.0),
            cost=cost_of(pending, steps, after, known.local_steps),
            before=pending.before,
            after=after,
            expected=pending.straggling.expected(restarted),
            why_not_compared=why_not,
            changed=changed,
            reason=next((status.reason for status in starts), ""),
            restarted_for=next(filter(None, (status.restarted_for for status in starts)), ""),
        )
        return [restart_diagnosis(measured)]


def _reporters(tasks: Sequence[ObservedTask]) -> Sequence[ObservedTask]:
    """Return the tasks that report steps: the chief of asynchronous workers, else all workers."""
    is_served = any(task.task.role is Role.PS for task in tasks)
    chiefs = [task for task in tasks if task.task.role is Role.CHIEF] if is_served else []
    return chiefs or [task for task in tasks if task.meets]


def _is_other_program(before: NewestSteps, steps: NewestSteps) -> bool:
    """Decide whether another process of the same start numbers the steps, without a restart."""
    return before.attempt == steps.attempt and before.part != steps.part


def _has_finished(reporters: Sequence[ObservedTask]) -> bool:
    """Decide whether the training has ended well by itself, so that the next start is another training."""
    ends = [task.status.exit if task.is_over and task.status else None for task in reporters]
    return bool(ends) and all(end is not None and end.code == 0 and not end.requested for end in ends)


def _anew(before: NewestSteps, steps: NewestSteps) -> Mapping[str, float]:
    """Return the end of the first step of each pace that has begun anew since the last call, Unix seconds."""
    is_all = steps.attempt != before.attempt
    return {
        name: float(np.fmin.reduce(pace.ends))
        for name, pace in steps.paces.items()
        if len(pace.ends) and (is_all or (name in before.paces and before.paces[name].attempt != pace.attempt))
    }


def _fresh(before: NewestSteps, steps: NewestSteps, anew: Mapping[str, float]) -> tuple[Floats, bool]:
    """Return ((k,) rising ends of the steps since the last call; True where none is missing)."""
    parts: list[Floats] = [np.empty(0)]
    is_whole = True
    for name, pace in steps.paces.items():
        known = before.paces.get(name)
        if name in anew:
            parts.append(pace.ends)
            is_whole &= pace.newest - len(pace.ends) < WARM_UP_STEPS
        elif known is not None and pace.newest > known.newest:
            parts.append(pace.ends[-(pace.newest - known.newest) :])
            is_whole &= pace.newest - known.newest <= len(pace.ends)
    ends: Floats = np.concatenate(parts)
    ends = ends[np.isfinite(ends)]
    return (np.sort(ends) if len(steps.paces) > 1 else ends), is_whole
