"""Steps from the spans of one worker of ParameterServerStrategy: pure Python, no TensorFlow.

The phases are those of any step (docs/reference/phases.md), on the worker's own clock; only the end of each step is
moved to the chief's. There is no all-reduce: `update` lasts until the servers have all that was sent to them, and
`host` until the next function has arrived and requests its batch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tfscale.trainer.probe.rows.spans import Distribution, Kind, Span
from tfscale.trainer.probe.steps.assembler import StepAssembler
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.timeline import UNKNOWN, Interval, overlap, union

_OFFSETS = 64
"""Newest functions of which the least delay gives the offset of the clocks. Among few, none may have come without
delay; among thousands, the clocks themselves drift apart."""


class Call(NamedTuple):
    """Function that was executed on the worker; Unix seconds on the chief's clock."""

    begin: float
    end: float
    failed: bool = False


@dataclass
class WorkerSteps:
    """Assembler of one worker's steps."""

    distribution: Distribution
    _assembler: StepAssembler = field(default_factory=StepAssembler)
    _offsets: deque[float] = field(default_factory=lambda: deque(maxlen=_OFFSETS))
    """Seconds between the last stamp of a function on the worker and its end in the chief; the least is the clocks'
    offset."""
    _reduces: bool = False
    """True once an optimizer was seen, whose steps the stamps show."""
    _ended: float = UNKNOWN
    """End of the newest function, on the chief's clock; unknown after a failure."""

    def feed(self, spans: list[Span], calls: list[Call]) -> list[tuple[Step, float]]:
        """Return the steps that these spans complete, each with the seconds of its compute's wait for variables."""
        stamped = sorted((span for span in spans if span.site.kind not in (Kind.EXCHANGE, Kind.TRAFFIC)), key=_end)
        exchanges = [span for span in spans if span.site.kind is Kind.EXCHANGE]
        self._reduces |= any(span.site.kind is Kind.REDUCE for span in stamped)
        if any(call.failed for call in calls):
            # The worker may have died and been started again.
            self._assembler = StepAssembler(sequence=self._assembler.sequence)
        if not (self._reduces or _evaluates(stamped)):
            return [(step, UNKNOWN) for step in self._whole(calls)]
        self._ended = calls[-1].end if calls else self._ended
        self._set_clock(spans, calls)
        steps = self._assembler.feed(stamped)
        self._assembler.drain_activities(math.inf)
        fetched = union((span.begin, span.end) for span in exchanges)
        batches = union((span.begin, span.end) for span in stamped if span.site.kind is Kind.INPUT)
        return [self._on_this_clock(step, _pull(step, fetched, batches)) for step in steps]

    def _whole(self, calls: Iterable[Call]) -> Iterator[Step]:
        """Yield a step for each function without stamps of a step; only its end and `host` are known."""
        for call in calls:
            if not call.failed:
                yield Step(
                    sequence=self._assembler.sequence,
                    end=call.end,
                    update=UNKNOWN,
                    host=call.begin - self._ended,
                    input=UNKNOWN,
                    compute=UNKNOWN,
                    reduce=UNKNOWN,
                    distribution=self.distribution,
                )
                self._assembler.sequence += 1
            self._ended = UNKNOWN if call.failed else call.end

    def _set_clock(self, spans: list[Span], calls: list[Call]) -> None:
        if spans and calls and not calls[-1].failed:
            self._offsets.append(calls[-1].end - max(map(_end, spans)))

    def _on_this_clock(self, step: Step, pull: float) -> tuple[Step, float]:
        # The optimizer counts the steps of all workers, in an order that is not known.
        return step._replace(end=step.end + min(self._offsets, default=0.0), global_step=None), pull


def _pull(step: Step, fetched: list[Interval], batches: list[Interval]) -> float:
    """Return the seconds of waiting for variables alone, after the batch had arrived."""
    begin = step.end - sum(part for part in step[2:6] if not math.isnan(part))
    fetching = [(max(since, begin), min(until, step.end)) for since, until in fetched]
    total = sum(until - since - overlap(batches, since, until) for since, until in fetching if until > since)
    return min(max(total, 0.0), step.compute)


def _evaluates(spans: list[Span]) -> bool:
    runs = [span.site for span in spans if span.site.kind is Kind.RUN]
    return bool(runs) and not any(run.trains for run in runs)


def _end(span: Span) -> float:
    return span.end
