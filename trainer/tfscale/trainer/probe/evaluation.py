"""Batches that train nothing, as one activity: pure Python, no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfscale.trainer.probe.activities import EVALUATION, Activity

_PATIENCE_SECONDS = 1.0
_PATIENCE_BATCHES = 3


@dataclass
class Evaluation:
    """The evaluation that goes on, if any. Ends with the next training batch, or when no batch has come for long."""

    _begin: float | None = None
    _end: float = 0.0
    _longest: float = 0.0
    _changes: list[Activity] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether one goes on."""
        return self._begin is not None

    def add(self, begin: float, end: float) -> None:
        """A batch was evaluated."""
        if self._begin is None:
            self._begin = begin
            self._changes.append(Activity(EVALUATION, begin))
        self._end = max(self._end, end)
        self._longest = max(self._longest, end - begin)

    def finish(self) -> tuple[float, float] | None:
        """The evaluation is over; its interval."""
        if self._begin is None:
            return None
        interval = self._begin, self._end
        self._changes.append(Activity(EVALUATION, *interval))
        self._begin, self._end, self._longest = None, 0.0, 0.0
        return interval

    def is_over(self, now: float) -> bool:
        """Whether it has been silent for so long that it must be over."""
        patience = max(_PATIENCE_SECONDS, _PATIENCE_BATCHES * self._longest)
        return self._begin is not None and now - self._end > patience

    def drain(self) -> list[Activity]:
        """What began or ended since the last call."""
        changes, self._changes = self._changes, []
        return changes
