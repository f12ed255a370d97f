"""Bound on a recording's size: beyond it steps are left out, never frames or events."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tfscale.console.engine.events import Event, FrameArrived
from tfscale.core.records.step_batch import StepBatch

WEEK = 7 * 86_400.0
WEEKLY = 5_000_000_000
"""Bytes that a week of up to 64 tasks may take. More tasks may take more, in proportion."""
TASKS = 64
WHOLE = 1_000_000_000
"""Bytes that may be written at once, after any time."""
RUN = 32
"""Steps in a row that are kept or left out together, so that neighbours can be compared."""
_SMALLEST = 1024
_COUNTS = ("sequence", "global_step")
_INTERVAL = 60.0
"""Seconds between two decisions."""


@dataclass(slots=True)
class RecordingBudget:
    """Share of the steps that may be kept, from the bytes written since the beginning."""

    begun: float
    tasks: int
    _share: int = 1
    _decided: float = 0.0

    def share(self, written: int, at: float) -> int:
        """Return n where one in n runs of steps is to be kept; 1 keeps all."""
        if at - self._decided >= _INTERVAL:
            self._decided = at
            allowed = self._allowed(at)
            if written > allowed:
                self._share = min(2 * self._share, _SMALLEST)
            elif written < 0.95 * allowed:
                self._share = max(self._share // 2, 1)
        return self._share

    def _allowed(self, at: float) -> float:
        scale = max(1.0, self.tasks / TASKS)
        return scale * (WHOLE + (WEEKLY - WHOLE) * (at - self.begun) / WEEK)


def thinned(event: Event, share: int) -> Event:
    """Return the event with one in `share` runs of steps, equal ones for every task; the others count as lost."""
    if not isinstance(event, FrameArrived) or not event.frame.steps:
        return event
    steps = tuple(_thin(batch, share) for batch in event.frame.steps)
    return replace(event, frame=event.frame.with_steps(steps), message=None)


def _thin(batch: StepBatch, share: int) -> StepBatch:
    rows = [row for row, sequence in enumerate(batch.sequence) if sequence // RUN % share == 0]
    columns = {column.name: getattr(batch, column.name) for column in fields(batch)}
    fewer: dict[str, Any] = {
        name: array("Q" if name in _COUNTS else "d" if name == "end" else "f", (column[row] for row in rows))
        for name, column in columns.items()
        if isinstance(column, Sequence) and not isinstance(column, str) and len(column)
    }
    return replace(batch, **fewer, lost=batch.lost + len(batch.sequence) - len(rows))
