"""Evaluation: batches that train nothing, reported as one activity. Pure Python, no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfscale.core.records.probe_status import Activity
from tfscale.trainer.probe.process.activities import EVALUATION

_PATIENCE_SECONDS = 1.0
_PATIENCE_BATCHES = 3
"""Multiple of its longest batch, at least a second, after which an evaluation without a batch is over. With less, a
slow batch would cut the evaluation in two; with more, the pause after it counts as evaluation for longer."""


@dataclass
class Evaluation:
    """Evaluation in progress, if any. It ends with the next training batch, or after long without a batch."""

    _begin: float | None = None
    _end: float = 0.0
    _longest: float = 0.0
    """Seconds of the longest batch."""
    _changes: list[Activity] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True while an evaluation is in progress."""
        return self._begin is not None

    def add(self, begin: float, end: float) -> None:
        """Add a batch that was evaluated; Unix seconds."""
        if self._begin is None:
            self._begin = begin
            self._changes.append(Activity(EVALUATION, begin))
        self._end = max(self._end, end)
        self._longest = max(self._longest, end - begin)

    def finish(self) -> tuple[float, float] | None:
        """End the evaluation, and return its interval; None if there is none."""
        if self._begin is None:
            return None
        interval = self._begin, self._end
        self._changes.append(Activity(EVALUATION, *interval))
        self._begin, self._end, self._longest = None, 0.0, 0.0
        return interval

    def is_over(self, now: float) -> bool:
        """Decide whether, at the Unix time `now`, no batch has come for so long that the evaluation must be over."""
        patience = max(_PATIENCE_SECONDS, _PATIENCE_BATCHES * self._longest)
        return self._begin is not None and now - self._end > patience

    def drain(self) -> list[Activity]:
        """Return the evaluations that began or ended since the last call."""
        changes, self._changes = self._changes, []
        return changes
