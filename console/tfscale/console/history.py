"""What every task did in each of the last ten minutes' seconds, and the last steps of all: what charts are drawn from.

Frames come by the thousand, so that each is only remembered when it comes; many are binned together, once a second of
their time at the latest. Reading bins what is left over, so that what is read is always whole.

Times are Unix seconds on the console's clock. An agent whose clock is found to differ is shifted by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.gauges import Gauges, gauges_of
from tfscale.console.laststeps import Era, LastSteps, Rows, Transfers
from tfscale.console.tracks import BLOCK, Grain, Tracks
from tfscale.console.wire.frames import ArrivedCounters
from tfscale.core.analysis.insight import MANY
from tfscale.core.analysis.steps import joined, moments, possible
from tfscale.core.records import PHASES, Frame, StepBatch, TaskStatus
from tfscale.core.task import Role, Task

SECONDS = 600
"""How far back it goes."""
_OLDER = 6
"""Seconds of the means in which older minutes of many tasks are kept: what a column of a chart of ten minutes shows."""
_SURE = 10.0
"""Seconds for which frames must have come late before it is the agent's clock: a backlog is late too, for a while."""
_SKEW = 2.0
_ENDINGS = 20
"""Of a task."""
_MOST_PENDING = 256
"""Frames that are binned together: enough for numpy, and no more than a key can wait for."""

_SUMS = ("steps", "measured", *PHASES)
"""Kept as sums over the second's steps."""
_SAMPLES = (*Gauges._fields, "loss")
_STEPS = (*_SUMS, "longest")
_LONGEST = len(_SUMS)

Series = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Seconds:
    """One task second by second, oldest first: (k,) each, NaN unknown, seconds and bytes a second."""

    at: NDArray[np.int64]
    """When each second begins."""
    steps: Series
    """How many ended in it."""
    step_time: Series
    """Mean."""
    longest: Series
    """The longest step that ended in it."""
    parts: Mapping[str, Series]
    """Mean seconds a step of the phases, `reduce` split into `transfer` and `wait`; as in `widgets.look.PARTS`."""
    gpu: Series
    """Mean utilisation of its host's GPUs, 0 to 1."""
    gpu_memory: Series
    """Bytes, of all of them."""
    gpu_clock: Series
    """Hertz of the slowest."""
    gpu_power: Series
    """Watts, of all of them."""
    gpu_temperature: Series
    """Degrees Celsius of the hottest."""
    cpu: Series
    """Of all cores, 0 to 1."""
    received: Series
    sent: Series
    loss: Series


class History:
    """Folds frames. A task takes 45 kB when its ten minutes are full, one of many 15 kB."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks = tuple(tasks)
        count = len(self.tasks)
        self._index = {task: index for index, task in enumerate(self.tasks)}
        self._names = {str(task): index for task, index in self._index.items()}
        self._meets = np.array([task.role in (Role.CHIEF, Role.WORKER) for task in self.tasks], bool)
        self._pending: list[tuple[int, float, Frame]] = []
        self._due = 0.0
        self._newest = 0.0
        # Of many, counters of every other second: each is read for it.
        steps, samples = (Grain(1, _OLDER), Grain(2, _OLDER)) if count > MANY else (Grain(), Grain())
        self._steps = Tracks(len(_STEPS), count, steps, SECONDS, largest=[_LONGEST])
        self._samples = Tracks(len(_SAMPLES), count, samples, SECONDS)
        self._sampled = np.full(count, -1, np.int64)
        """Where the newest samples are kept."""
        self._first_heard = np.full(count, np.nan)
        self._delay = np.full(count, np.inf)
        self._endings: dict[int, list[TaskStatus]] = {}
        self._era = Era()
        self._last = LastSteps(self.tasks)
        self._transfers = Transfers()

    def fold(self, at: float, task: Task, frame: Frame) -> None:
        """Take in a frame that came at `at`; those of one task in their order."""
        self._pending.append((self._index[task], at, frame))
        if frame.status.exit is not None:
            self._note_ending(self._index[task], frame.status)
        if at >= self._due or len(self._pending) >= _MOST_PENDING:
            self._due = at + 1.0
            self._bin()

    def seconds(self, task: Task, until: float, span: int = SECONDS) -> Seconds:
        """The task's `span` seconds before `until`."""
        self._bin()
        who, last = self._index[task], int(until)
        values = self._steps.taken(who, last, span)
        return Seconds(
            at=np.arange(last - span, last),
            steps=values[0],
            step_time=_step_time(values),
            longest=values[_LONGEST],
            parts=self._parts(values, last, span),
            **dict(zip(_SAMPLES, self._samples.taken(who, last, span), strict=True)),
        )

    def step_times(self, until: float, span: int, tasks: Sequence[Task] | None = None) -> NDArray[np.float32]:
        """(n, span) mean seconds a step of these tasks, by default of all, in the seconds before `until`."""
        self._bin()
        who = slice(None) if tasks is None else np.array([self._index[task] for task in tasks], np.int64)
        return _step_time(self._steps.taken(who, int(until), span))

    def last_steps(self) -> LastSteps:
        """The newest steps of all tasks; goes on changing as frames come."""
        self._bin()
        return self._last

    def endings(self, task: Task, until: float) -> Sequence[TaskStatus]:
        """How the task's attempts ended up to `until`, the newest last."""
        known = self._endings.get(self._index[task], [])
        return [status for status in known if status.exit and status.exit.at <= until]

    def _note_ending(self, who: int, status: TaskStatus) -> None:
        known = self._endings.setdefault(who, [])
        if known and (known[-1].generation, known[-1].attempt) == (status.generation, status.attempt):
            known[-1] = status
        else:
            known.append(status)
            del known[:-_ENDINGS]

    def _parts(self, values: NDArray[np.float32], last: int, span: int) -> dict[str, Series]:
        sums = dict(zip(_SUMS, values, strict=False))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = {phase: sums[phase] / sums["measured"] for phase in PHASES}
        reduce = mean.pop("reduce")
        # Where nobody is known to be waited for, all of the reduction is transfer.
        transfer = np.fmin(reduce, self._transfers.series(last, span))
        return {**mean, "transfer": np.where(np.isnan(reduce), reduce, transfer), "wait": reduce - transfer}

    def _bin(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        who = np.array([index for index, _, _ in pending], np.int64)
        at = np.array([at for _, at, _ in pending])
        told = np.array([frame.at for _, _, frame in pending])
        self._newest = max(self._newest, float(at.max()))
        shift = self._shift(who, at, told)
        frames = [frame for _, _, frame in pending]
        self._put_samples(who, _whole(told + shift[who]), frames)
        self._put_steps(frames, shift)
        self._steps.forget(self._newest)
        self._samples.forget(self._newest)
        self._transfers.forget(int(self._newest) - SECONDS - BLOCK)

    def _shift(self, who: NDArray[np.int64], at: NDArray[np.float64], told: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) seconds to add to each agent's times."""
        np.fmin.at(self._first_heard, who, at)
        np.minimum.at(self._delay, who, at - told)
        is_late = (self._delay > _SKEW) & (self._newest - self._first_heard > _SURE)
        return np.where(is_late | (self._delay < -_SKEW) & np.isfinite(self._delay), self._delay, 0.0)

    def _put_samples(self, who: NDArray[np.int64], second: NDArray[np.int64], frames: Sequence[Frame]) -> None:
        """Of frames that would be kept in one place the first: reading the counters is the most of it."""
        place = second // self._samples.grain.newest
        fresh = np.flatnonzero(place != self._sampled[who])
        if len(fresh):
            who, second = who[fresh], second[fresh]
            self._sampled[who] = place[fresh]
            samples = _samples([frames[index] for index in fresh.tolist()])
            for block, mine, within, _ in self._samples.places(second, self._newest):
                block[:, who[mine], within] = samples[:, mine]

    def _put_steps(self, frames: Sequence[Frame], shift: NDArray[np.float64]) -> None:
        batches = [
            batch for frame in frames for batch in frame.steps if batch.subject in self._names and len(batch.sequence)
        ]
        if not batches:
            return
        rows = _rows(batches, [self._names[batch.subject] for batch in batches], shift)
        self._add_up(rows)
        rows, is_new = self._era.follow(rows)
        if is_new:
            self._last.clear()
            self._transfers.clear()
        if not self._meets.all():
            # An evaluator counts steps of its own.
            rows = rows.only(self._meets[rows.who])
        if len(rows.sequence):
            self._last.add(rows)
            self._transfers.add(rows)

    def _add_up(self, rows: Rows) -> None:
        second = _whole(rows.end)
        starts = np.flatnonzero(np.diff(second, prepend=second[0] - 1) | np.diff(rows.who, prepend=rows.who[0]))
        lag = rows.phases[:-1].sum(axis=0)
        total = lag + np.where(np.isnan(rows.phases[-1]), np.float32(0), rows.phases[-1])
        known, phases = ~np.isnan(lag), rows.phases
        if not known.all():
            phases, total = np.where(known, phases, np.float32(0)), np.where(known, total, np.float32(0))
        counts = np.diff(starts, append=len(second))
        measured = np.add.reduceat(known.astype(np.float32), starts)
        sums = np.stack([counts.astype(np.float32), measured, *np.add.reduceat(phases, starts, axis=1)])
        longest = np.where(measured > 0, np.maximum.reduceat(total, starts), np.float32(np.nan))
        who = rows.who[starts]
        for block, mine, within, share in self._steps.places(second[starts], self._newest):
            place = who[mine], within
            fresh = np.isnan(block[0][place])
            block[: len(_SUMS), place[0][fresh], within[fresh]] = 0.0
            for column, values in enumerate(sums):
                np.add.at(block[column], place, share * values[mine])
            np.fmax.at(block[_LONGEST], place, longest[mine])


def _whole(at: NDArray[np.float64]) -> NDArray[np.int64]:
    """The seconds in which these moments lie; what is no moment lies too far back to be kept."""
    known = np.isfinite(at)
    return np.floor(at if known.all() else np.where(known, at, 0.0)).astype(np.int64)


def _step_time(values: NDArray[np.float32]) -> NDArray[np.float32]:
    sums = values[len(_SUMS) - len(PHASES) : len(_SUMS)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sums[:-1].sum(axis=0) + np.nan_to_num(sums[-1])) / values[1])


def _rows(batches: Sequence[StepBatch], owners: Sequence[int], shift: NDArray[np.float64]) -> Rows:
    lengths = np.array([len(batch.sequence) for batch in batches])
    who = np.repeat(np.array(owners, np.int64), lengths)
    phases = [joined([getattr(batch, phase) for batch in batches], lengths, np.float32) for phase in PHASES]
    ends = moments(joined([batch.end for batch in batches], lengths, np.float64))
    return Rows(
        attempts=[(owner, batch.generation, batch.attempt) for owner, batch in zip(owners, batches, strict=True)],
        lengths=lengths,
        who=who,
        sequence=joined([batch.sequence for batch in batches], lengths, np.int64),
        end=ends + shift[who],
        phases=possible(np.stack(phases)),
    )


def _sampled(frame: Frame) -> tuple[float | None, ...]:
    counters = frame.counters
    if isinstance(counters, ArrivedCounters):
        gauges = counters.gauges
    else:
        gauges = gauges_of(counters.host, counters.gpus, getattr)
    return *gauges, frame.training.loss if frame.training else None


def _samples(frames: Sequence[Frame]) -> NDArray[np.float32]:
    """(samples, frames); NaN where unknown, or too large to be drawn."""
    with np.errstate(over="ignore"):
        samples = np.array([_sampled(frame) for frame in frames], np.float32).T
    samples[np.isinf(samples)] = np.nan
    return samples
