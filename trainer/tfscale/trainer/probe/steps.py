"""Spans into steps: pure Python, no TensorFlow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tfscale.trainer.probe.spans import Kind, Span

UNKNOWN = math.nan

_AHEAD = 16
"""Batches that a loop inside a graph may fetch ahead of its steps: TensorFlow runs 10 iterations in parallel."""


class Step(NamedTuple):
    """One training step, which ends when its gradients are reduced. Seconds; NaN is unknown.

    The phases follow each other from the end of the step before (docs/spikes/phases.md) and add up to the time between
    the two ends.
    """

    sequence: int
    end: float
    update: float
    host: float
    input: float
    compute: float
    reduce: float
    clamped: bool
    bytes: int
    examples: float


@dataclass
class StepAssembler:
    """Folds spans, in the order of their ends, into steps.

    A run that contains reductions is a training step; the largest of them is its gradients'. All others, wherever they
    fall, are time in `reduce` and not in the phase around them: they too wait for the slowest worker.
    """

    sequence: int = 0
    _batches: deque[Span] = field(default_factory=lambda: deque(maxlen=_AHEAD))
    _eager_batch: Span | None = None
    _reductions: list[Span] = field(default_factory=list)
    _reduced: float = -math.inf
    _exit: float = UNKNOWN
    _updated: float = UNKNOWN

    def feed(self, spans: Iterable[Span]) -> list[Step]:
        """The steps that these spans complete."""
        return [step for span in spans if (step := self._fold(span)) is not None]

    def _fold(self, span: Span) -> Step | None:
        if span.site.kind is Kind.RUN:
            return self._finish(span)
        if span.site.kind is Kind.REDUCE:
            self._reductions.append(self._serialised(span))
        elif span.site.eager:
            self._eager_batch = span
        else:
            self._add_batch(span)
        return None

    def _add_batch(self, batch: Span) -> None:
        # Outside loops a batch belongs to the run that follows; one still there came too late for its own.
        if not batch.site.looped:
            self._batches.clear()
        self._batches.append(batch)

    def _serialised(self, reduction: Span) -> Span:
        """Collectives run one after the other, however early their tensors were ready."""
        begin = max(reduction.begin, self._reduced)
        self._reduced = reduction.end
        return self._beyond_updates(reduction._replace(begin=min(begin, reduction.end)))

    def _beyond_updates(self, reduction: Span) -> Span:
        """A reduction for which no update waits goes on beside them; only what is left after them is waiting."""
        if not reduction.site.beside or math.isnan(self._updated):
            return reduction
        return reduction._replace(begin=max(reduction.begin, min(self._updated, reduction.end)))

    def _finish(self, run: Span) -> Step | None:
        batch = self._batch_of(run)
        inside = [
            span
            for span in self._reductions
            if span.site.in_run and not span.site.beside and run.begin <= span.end <= run.end
        ]
        if not inside:
            # Evaluation or prediction: whatever it waited for belongs to no training step.
            self._reductions = [span for span in self._reductions if span.end > run.end]
            return None
        gradients = max(inside, key=lambda span: (span.site.bytes, span.end))
        step = self._cut(batch, gradients, [span for span in self._reductions if span.end < gradients.end])
        self.sequence += 1
        self._exit, self._updated = gradients.end, run.end
        self._reductions = [self._beyond_updates(span) for span in self._reductions if span.end > gradients.end]
        return step

    def _batch_of(self, run: Span) -> Span | None:
        """Inside a graph batches and runs alternate, though batches may be some ahead; in Python the newest counts."""
        if self._batches and not run.site.eager:
            return self._batches.popleft()
        batch, self._eager_batch = self._eager_batch, None
        return batch

    def _cut(self, batch: Span | None, gradients: Span, others: list[Span]) -> Step:
        asked, ready = (batch.begin, batch.end) if batch else (UNKNOWN, UNKNOWN)
        edges, clamped = _monotone([self._exit, self._updated, asked, ready, gradients.begin, gradients.end])
        update, host, input_, compute = (
            end - begin - sum(_overlap(span, begin, end) for span in others) for begin, end in pairwise(edges[:-1])
        )
        begin = edges[0] if not math.isnan(edges[0]) else asked
        waits = sum(_overlap(span, begin, gradients.end) for span in others)
        return Step(
            sequence=self.sequence,
            end=gradients.end,
            update=update,
            host=host,
            input=input_,
            compute=compute,
            reduce=gradients.end - gradients.begin + waits,
            clamped=clamped,
            bytes=gradients.site.bytes,
            examples=batch.examples if batch else 0.0,
        )


def _monotone(edges: list[float]) -> tuple[list[float], bool]:
    """Edges moved so that none precedes the one before it: iterations of a loop inside a graph may overlap."""
    clamped = False
    moved: list[float] = []
    latest = -math.inf
    for edge in edges:
        if edge < latest:
            edge, clamped = latest, True
        latest = edge if edge > latest else latest
        moved.append(edge)
    return moved, clamped


def _overlap(span: Span, begin: float, end: float) -> float:
    overlap = min(span.end, end) - max(span.begin, begin)
    return max(0.0, overlap) if not math.isnan(overlap) else 0.0
