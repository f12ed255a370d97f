"""Steps whose gradients were not finite in this process, before the reduction: pure Python, no TensorFlow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tfscale.core.records.training import Gradients
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.usual_steps import UsualSteps


class NonFinite(NamedTuple):
    """Gradients of one local replica that were not finite in one step; `at` is between two reductions."""

    at: float
    replica: int
    variables: int
    """Number of variables with such gradients."""
    checked: int
    """Number of checked variables."""
    first: str = ""
    """Name of the first variable whose gradient was not finite."""


class GradientWatch:
    """Finder of the first of the newest steps in a row with gradients that are not finite."""

    def __init__(self) -> None:
        self.newest: Gradients | None = None
        """Newest known state of the gradients; None before the first step with checked gradients."""
        self._waiting: list[NonFinite] = []
        self._last = -1
        """Sequence of the newest step whose gradients were not finite."""

    def update(self, found: Iterable[NonFinite], steps: Sequence[Step], following: int, horizon: float) -> None:
        """Take in failed checks, and the steps that were over by `horizon`; `following` is the next sequence number."""
        self._waiting += found
        settled = [each for each in self._waiting if each.at <= horizon]
        self._waiting = [each for each in self._waiting if each.at > horizon]
        ends = _ends(steps) if settled else []
        for each in settled:
            index = bisect_left(ends, each.at)
            # What belongs to none of them belongs to the step that has not ended, and perhaps never will.
            step = steps[index] if index < len(ends) else None
            self._add(each, *((step.sequence, step.global_step) if step else (following, None)))
        if following - 1 > self._last and (steps or self.newest is not None):
            self.newest = Gradients()

    def _add(self, found: NonFinite, sequence: int, global_step: int | None) -> None:
        series = self.newest or Gradients()
        if not series.steps or sequence > self._last + 1:
            series = Gradients(
                steps=0,
                since=found.at,
                sequence=sequence,
                global_step=global_step,
                replicas=(),
                variables=0,
                checked=found.checked,
                first=found.first,
            )
        begin = series.sequence if series.sequence is not None else sequence
        if sequence == begin:
            replicas = tuple(sorted({*series.replicas, found.replica}))
            series = replace(series, replicas=replicas, variables=max(series.variables or 0, found.variables))
        self._last = max(self._last, sequence)
        self.newest = replace(series, steps=self._last - begin + 1)


def _ends(steps: Sequence[Step]) -> list[float]:
    ends: list[float] = steps.end.tolist() if isinstance(steps, UsualSteps) else [step.end for step in steps]
    return ends
