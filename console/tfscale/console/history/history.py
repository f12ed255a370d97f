"""Every task's last ten minutes second by second, and the recent steps of all tasks: the source of the charts.

A thousand tasks send a thousand frames a second. `fold` only remembers them; they are binned many at a time, at the end
of the second at the latest. Reads are complete up to the last `close_second`.

Times are Unix seconds on the console's clock. The times of an agent with another clock are shifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.run.cluster_context import MANY
from tfscale.console.history.cluster_series import ClusterSeries
from tfscale.console.history.gauges import Gauges
from tfscale.console.history.joined_steps import JoinedSteps, joined
from tfscale.console.history.recent_steps import RecentSteps
from tfscale.console.history.time_series import BLOCK, Resolution, SeriesStore
from tfscale.console.history.transfer_series import TransferSeries
from tfscale.console.wire.frames import frame_gauges
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import LAG_PHASES, PHASES
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.records.training import MOST_LOGS, TRAINING_DISPLAYS

SECONDS = 600
"""Seconds that are kept."""
_OLDER = 6
"""Seconds of one slot in the older minutes of many tasks: one column of a chart of ten minutes."""
_LATE = 10.0
"""Seconds of late frames after which the agent's clock counts as wrong. A backlog is late for less long."""
_SKEW = 2.0
"""Seconds by which a clock must differ to be corrected: a second is the width of a point in a chart."""
_ENDINGS = 20
"""Attempts of each task whose end is kept."""
_MOST_PENDING = 256
"""Frames that are binned together: enough for numpy to pay, and few enough for a key to wait."""

_SUMS = ("steps", "measured", *PHASES)
"""Columns that are sums over the second's steps."""
_TRAINING = tuple(name for name, display in TRAINING_DISPLAYS.items() if display.is_charted)
_SAMPLES = (*Gauges._fields, *_TRAINING)
_STEPS = (*_SUMS, "longest")
_LONGEST = len(_SUMS)

Series = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Seconds:
    """One task second by second, oldest first: each series is (k,), NaN unknown; of n tasks (n, k)."""

    at: NDArray[np.int64]
    """Unix time of each second's beginning."""
    steps: Series
    """Number of steps that ended in the second."""
    step_time: Series
    """Mean seconds of a step."""
    longest: Series
    """Seconds of the longest step that ended in the second."""
    parts: Mapping[str, Series]
    """Mean seconds a step of each phase, with `reduce` split into `transfer` and `wait` (as `theme.PARTS`)."""
    gpu: Series
    """Mean utilisation of its host's GPUs, 0 to 1."""
    gpu_memory: Series
    """Bytes on all GPUs."""
    gpu_clock: Series
    """Hertz of the slowest GPU."""
    gpu_power: Series
    """Watts of all GPUs."""
    gpu_temperature: Series
    """Degrees Celsius of the hottest GPU."""
    cpu: Series
    """Utilisation of all cores, 0 to 1."""
    received: Series
    sent: Series
    training: Mapping[str, Series]
    """Charted numbers of the training: by the names of its fields, and Keras's logs by theirs."""


class History:
    """History of all tasks. A task takes 46 kB when its ten minutes are full; 15 kB where there are many.

    Where Keras logs numbers, it takes 38 kB or 9 kB more.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks = tuple(tasks)
        count = len(self.tasks)
        self._index = {task: index for index, task in enumerate(self.tasks)}
        self._names = {str(task): index for task, index in self._index.items()}
        self._pending: list[tuple[int, float, Frame]] = []
        self._newest = 0.0
        # Of many, counters of every other second: each is read for it.
        steps, samples = (
            (Resolution(1, _OLDER), Resolution(2, _OLDER)) if count > MANY else (Resolution(), Resolution())
        )
        self._steps = SeriesStore(len(_STEPS), count, steps, SECONDS, largest=[_LONGEST])
        self._samples = SeriesStore(len(_SAMPLES), count, samples, SECONDS)
        self._logs = SeriesStore(MOST_LOGS, count, samples, SECONDS)
        self._log_places: dict[str, int] = {}
        """Place of each log in `_logs`; further names have no chart."""
        self._sampled = np.full(count, -1, np.int64)
        """Slot of each task's newest samples."""
        self._first_heard = np.full(count, np.nan)
        self._delay = np.full(count, np.inf)
        self._endings: dict[int, list[TaskStatus]] = {}
        # An evaluator counts steps of its own.
        self._recent = RecentSteps([task for task in self.tasks if task.role in (Role.CHIEF, Role.WORKER)])
        self._transfers = TransferSeries()
        self.figures = ClusterSeries()

    def fold(self, at: float, task: Task, frame: Frame) -> None:
        """Take in a frame that arrived at `at`; the frames of one task in their order."""
        self._pending.append((self._index[task], at, frame))
        if frame.status.exit is not None:
            self._note_ending(self._index[task], frame.status)
        if len(self._pending) >= _MOST_PENDING:
            self.close_second()

    def seconds(self, task: Task, until: float, span: int = SECONDS) -> Seconds:
        """Return the task's `span` seconds before `until`."""
        return self._read(self._index[task], int(until), span)

    def seconds_of(self, tasks: Sequence[Task], until: float, span: int) -> Seconds:
        """Return the `span` seconds before `until` of several tasks side by side."""
        return self._read(np.array([self._index[task] for task in tasks], np.int64), int(until), span)

    def _read(self, owner: int | NDArray[np.int64], last: int, span: int) -> Seconds:
        values = self._steps.read(owner, last, span)
        samples = dict(zip(_SAMPLES, self._samples.read(owner, last, span), strict=True))
        logs = dict(zip(self._log_places, self._logs.read(owner, last, span), strict=False))
        return Seconds(
            at=np.arange(last - span, last),
            steps=values[0],
            step_time=_step_time(values),
            longest=values[_LONGEST],
            parts=self._parts(values, last, span),
            training={name: samples.pop(name) for name in _TRAINING} | logs,
            **samples,
        )

    def lags(self, until: float, span: int, tasks: Sequence[Task]) -> NDArray[np.float32]:
        """Return (n, span) mean lags of these tasks in the seconds before `until`; NaN without a measured step."""
        owner = np.array([self._index[task] for task in tasks], np.int64)
        sums = dict(zip(_SUMS, self._steps.read(owner, int(until), span), strict=False))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sum(sums[phase] for phase in LAG_PHASES) / sums["measured"], np.float32)

    @property
    def recent_steps(self) -> RecentSteps:
        """The newest steps of all tasks; changes as frames come."""
        return self._recent

    def endings(self, task: Task, until: float) -> Sequence[TaskStatus]:
        """Return the ends of the task's attempts up to `until`, the newest last."""
        statuses = self._endings.get(self._index[task], [])
        return [status for status in statuses if status.exit and status.exit.at <= until]

    def _note_ending(self, owner: int, status: TaskStatus) -> None:
        statuses = self._endings.setdefault(owner, [])
        if statuses and (statuses[-1].generation, statuses[-1].attempt) == (status.generation, status.attempt):
            statuses[-1] = status
        else:
            statuses.append(status)
            del statuses[:-_ENDINGS]

    def _parts(self, values: NDArray[np.float32], last: int, span: int) -> dict[str, Series]:
        sums = dict(zip(_SUMS, values, strict=False))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = {phase: sums[phase] / sums["measured"] for phase in PHASES}
        reduce = mean.pop("reduce")
        # Without a known transfer of the second, the whole reduction counts as transfer.
        transfer = np.fmin(reduce, self._transfers.series(last, span))
        return {**mean, "transfer": np.where(np.isnan(reduce), reduce, transfer), "wait": reduce - transfer}

    def close_second(self) -> None:
        """Bin the frames that came since the last time."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        owner = np.array([index for index, _, _ in pending], np.int64)
        at = np.array([at for _, at, _ in pending])
        reported_at = np.array([frame.at for _, _, frame in pending])
        self._newest = max(self._newest, float(at.max()))
        shift = self._shift(owner, at, reported_at)
        frames = [frame for _, _, frame in pending]
        self._put_samples(owner, _seconds_of(reported_at + shift[owner]), frames)
        self._put_steps(frames, shift)
        self._steps.forget(self._newest)
        self._samples.forget(self._newest)
        self._logs.forget(self._newest)
        self._transfers.forget(int(self._newest) - SECONDS - BLOCK)

    def _shift(
        self, owner: NDArray[np.int64], at: NDArray[np.float64], reported_at: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return (n,) seconds to add to each agent's times."""
        np.fmin.at(self._first_heard, owner, at)
        np.minimum.at(self._delay, owner, at - reported_at)
        is_late = (self._delay > _SKEW) & (self._newest - self._first_heard > _LATE)
        return np.where(is_late | (self._delay < -_SKEW) & np.isfinite(self._delay), self._delay, 0.0)

    def _put_samples(self, owner: NDArray[np.int64], second: NDArray[np.int64], frames: Sequence[Frame]) -> None:
        """Keep the first sample of each slot: reading the counters is the main cost."""
        place = second // self._samples.resolution.newest
        fresh = np.flatnonzero(place != self._sampled[owner])
        if len(fresh):
            owner, second = owner[fresh], second[fresh]
            self._sampled[owner] = place[fresh]
            sampled = [frames[index] for index in fresh.tolist()]
            self._put(self._samples, owner, second, _drawable([_sampled(frame) for frame in sampled]))
            has_logs = [bool(frame.training and frame.training.logs) for frame in sampled]
            if any(has_logs):
                logs = _drawable([self._logged(frame) for frame in compress(sampled, has_logs)])
                self._put(self._logs, owner[has_logs], second[has_logs], logs)

    def _put(
        self, store: SeriesStore, owner: NDArray[np.int64], second: NDArray[np.int64], values: NDArray[np.float32]
    ) -> None:
        for block, places, slot, _ in store.slots(second, self._newest):
            block[:, owner[places], slot] = values[:, places]

    def _logged(self, frame: Frame) -> list[float | None]:
        """Return Keras's logs at their places."""
        logged: list[float | None] = [None] * MOST_LOGS
        for log in frame.training.logs if frame.training else ():
            if log.name not in self._log_places and len(self._log_places) < MOST_LOGS:
                self._log_places[log.name] = len(self._log_places)
            if (place := self._log_places.get(log.name)) is not None:
                logged[place] = log.value
        return logged

    def _put_steps(self, frames: Sequence[Frame], shift: NDArray[np.float64]) -> None:
        batches = [
            batch for frame in frames for batch in frame.steps if batch.subject in self._names and len(batch.sequence)
        ]
        if not batches:
            return
        owners = np.array([self._names[batch.subject] for batch in batches], np.int64)
        steps = joined(batches, shift[owners])
        self._add_up(np.repeat(owners, steps.lengths), steps)
        is_current, has_begun = self._recent.add(steps)
        if has_begun:
            self._transfers.clear()
        if any(is_current):
            kept = slice(None) if all(is_current) else np.repeat(is_current, steps.lengths)
            self._transfers.add(steps.sequence[kept], steps.end[kept], steps.phases[-1, kept])

    def _add_up(self, owners: NDArray[np.int64], rows: JoinedSteps) -> None:
        second = _seconds_of(rows.end)
        starts = np.flatnonzero(np.diff(second, prepend=second[0] - 1) | np.diff(owners, prepend=owners[0]))
        lag = rows.phases[:-1].sum(axis=0)
        total = lag + np.where(np.isnan(rows.phases[-1]), np.float32(0), rows.phases[-1])
        is_known, phases = ~np.isnan(lag), rows.phases
        if not is_known.all():
            phases, total = np.where(is_known, phases, np.float32(0)), np.where(is_known, total, np.float32(0))
        counts = np.diff(starts, append=len(second))
        measured = np.add.reduceat(is_known.astype(np.float32), starts)
        sums = np.stack([counts.astype(np.float32), measured, *np.add.reduceat(phases, starts, axis=1)])
        longest = np.where(measured > 0, np.maximum.reduceat(total, starts), np.float32(np.nan))
        owner = owners[starts]
        for block, places, slot, weight in self._steps.slots(second[starts], self._newest):
            place = owner[places], slot
            fresh = np.isnan(block[0][place])
            block[: len(_SUMS), place[0][fresh], slot[fresh]] = 0.0
            for column, values in enumerate(sums):
                np.add.at(block[column], place, weight * values[places])
            np.fmax.at(block[_LONGEST], place, longest[places])


def _seconds_of(at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the second of each time; an unknown time becomes 0, which is too old to be kept."""
    is_known = np.isfinite(at)
    return np.floor(at if is_known.all() else np.where(is_known, at, 0.0)).astype(np.int64)


def _step_time(values: NDArray[np.float32]) -> NDArray[np.float32]:
    sums = values[len(_SUMS) - len(PHASES) : len(_SUMS)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sums[:-1].sum(axis=0) + np.nan_to_num(sums[-1])) / values[1])


def _sampled(frame: Frame) -> tuple[float | None, ...]:
    return *frame_gauges(frame), *[getattr(frame.training, name, None) for name in _TRAINING]


def _drawable(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float32]:
    """Return (columns, rows); NaN where unknown, or too large to be drawn."""
    with np.errstate(over="ignore"):
        values = np.array(rows, np.float32).T
    values[np.isinf(values)] = np.nan
    return values
