"""The newest steps of all tasks, lined up by their collective: which task entered the all-reduce when, and its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.console.history.joined_steps import JoinedSteps
from tfscale.core.cluster.task import Task

_FEWEST_KEPT, _MOST_KEPT = 160, 2_000
"""Steps of each task. When the table is full the oldest quarter goes."""
_CELLS = 100_000
"""Steps of all tasks together, where that is more than `_FEWEST_KEPT` of each."""
_SILENT = 3.0
"""Seconds by which a task's newest step may end before the others' without being left out."""


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """k steps of n tasks side by side; NaN where a task has not reported."""

    tasks: tuple[Task, ...]
    sequence: NDArray[np.int64]
    """(k,) numbers of the steps, rising."""
    end: NDArray[np.float64]
    """(k,) Unix seconds at which the first task left the collective."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds, in the order of PHASES."""


class RecentSteps:
    """The newest steps in the analysis's own table, on the console's clock."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Keep steps of these tasks, which meet in the same collective."""
        self._tasks = {str(task): task for task in tasks}
        self._table = StepTable(keep=math.inf, cells=_CELLS, fewest=_FEWEST_KEPT, most=_MOST_KEPT)

    @property
    def newest(self) -> int | None:
        """The newest collective that a task has left, None before the first."""
        return max(self._newest().values(), default=None)

    @property
    def common(self) -> int | None:
        """Newest collective that all lately reporting tasks have left, None before the first."""
        newest = self._newest()
        oldest = self._table.oldest()
        if oldest is None:
            return None
        lately = {name: self._table.newest_end(name) for name, at in newest.items() if at >= oldest}
        latest = np.fmax.reduce(list(lately.values()))
        # A task whose steps have no known end is not left behind.
        return min(newest[name] for name, end in lately.items() if not end < latest - _SILENT)

    @property
    def oldest(self) -> int | None:
        """The oldest collective that is kept, None before the first."""
        return self._table.oldest()

    def reporters(self, sequence: int) -> int:
        """Return how many tasks have reported this collective, or a later one."""
        return sum(newest >= sequence for newest in self._newest().values())

    def add(self, steps: JoinedSteps) -> tuple[list[bool], bool]:
        """Take in the steps of several batches; one task's in their order.

        Return which batches belong to the newest attempt of a task, and whether one of them begins it.
        """
        table, is_current, has_begun = self._table, list[bool](), False
        for batch in steps.batches:
            resets = table.resets
            is_current.append(batch.subject in self._tasks and table.admit(batch))
            if table.resets != resets:
                is_current, has_begun = [*[False] * (len(is_current) - 1), True], True
        kept = slice(None) if all(is_current) else np.repeat(is_current, steps.lengths)
        current = list(compress(steps.batches, is_current))
        table.write_joined(current, steps.sequence[kept], steps.end[kept], steps.phases[:, kept])
        return is_current, has_begun

    def aligned(self, last: int, count: int) -> TaskSteps:
        """Return the last `count` steps up to the collective `last`, with every task that has reported such a step."""
        names = list(self._newest())
        ends, phases = self._table.reported(names, last - count + 1, last)
        has_reported = np.flatnonzero((~np.isnan(ends) | ~np.isnan(phases).all(axis=1)).any(axis=1))
        end = np.fmin.reduce(ends, axis=0, initial=np.nan)
        ended = np.flatnonzero(~np.isnan(end))
        tasks = tuple(self._tasks[names[index]] for index in has_reported.tolist())
        planes = phases[has_reported][:, :, ended].transpose(1, 2, 0)
        return TaskSteps(tasks, ended + last - count + 1, end[ended], planes)

    def _newest(self) -> dict[str, int]:
        """Return the newest collective of each task that has left one, in the order of the tasks."""
        numbers = ((name, self._table.newest(name)) for name in self._tasks)
        return {name: newest for name, newest in numbers if newest is not None}
