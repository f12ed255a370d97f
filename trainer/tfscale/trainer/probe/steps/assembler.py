"""Assembler of steps from spans: pure Python, no TensorFlow."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfscale.core.records.probe_status import Activity
from tfscale.core.records.step_batch import PHASES
from tfscale.trainer.probe.process.activities import IDLE
from tfscale.trainer.probe.rows.spans import Kind, Site, Span
from tfscale.trainer.probe.steps.evaluation import Evaluation
from tfscale.trainer.probe.steps.step import Step, Tail
from tfscale.trainer.probe.steps.timeline import COMPUTE, HOST, INPUT, UNKNOWN, UPDATE, Interval, Timeline, union

_SAME_BATCH_SECONDS = 0.001
"""Most seconds between the batches of one step that reads two data sets. With less, the second batch would begin a
step of its own; with more, two steps of a fast loop would be one."""
_LARGE = 0.01
"""Part of the largest reduction of a step: a smaller reduction is not of gradients."""
IDLE_SECONDS, _IDLE_STEPS = 1.0, 20.0
"""Seconds and usual steps: time on the host beyond both is no part of a step, but a pause between two steps."""

REMEMBERED = 64
"""Number of newest steps whose median duration is the usual duration. With far fewer, two slow steps would count as
usual; with far more, a new size of steps would long count as pauses."""


class _Part(NamedTuple):
    """Micro-batch: its fetched batches, and the time when its gradients were ready."""

    batches: list[Span]
    done: float
    in_run: bool
    begun: float = UNKNOWN
    """Begin of the run, if Python starts the run."""
    earlier: tuple[float, ...] = ()
    passes: int = 1
    """Micro-batches in it, where a loop of the graph computes several."""
    applies: bool = False
    """True where its gradients were applied at once, by this replica alone."""


@dataclass
class StepAssembler:
    """Assembler of steps from spans, which come in the order of their ends.

    A run with reductions that updates wait for is a step; its last large reduction is that of the gradients. Earlier
    runs that compute gradients without a reduction are its micro-batches; runs without gradients are evaluation. All
    other reductions, wherever they fall, are time in `reduce` and not in the phase around them: they too wait for the
    slowest worker.
    """

    sequence: int = 0
    evaluation: Evaluation = field(default_factory=Evaluation)
    own_input: bool = False
    """True if no batch was requested of TensorFlow: the program brings its batches itself, in `host`."""
    steps_of_call: int = 1
    """Steps of the newest run, whose parts are not told apart: each is a share of it."""
    _asks: bool = False
    """True once TensorFlow was asked for a batch."""
    _unasked: int = 0
    """Newest steps in a row for which no batch was requested."""
    _batches: list[Span] = field(default_factory=list)
    _parts: list[_Part] = field(default_factory=list)
    _reductions: list[Span] = field(default_factory=list)
    _ready: dict[Site, dict[int, float]] = field(default_factory=dict)
    """Unix seconds at which each local replica's gradients were ready, by replica.

    The outer key is the site of their reduction, or of a run without a reduction.
    """
    _pauses: list[Interval] = field(default_factory=list)
    _idle: list[Activity] = field(default_factory=list)
    _usual_bytes: float = 0.0
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _reduced: float = -math.inf
    _exit: float = UNKNOWN
    _updated: float = UNKNOWN

    def feed(self, spans: Iterable[Span], pauses: Iterable[Interval] = ()) -> list[Step]:
        """Return the steps that these spans complete; `pauses` are the intervals of other activities of the process."""
        self._pauses += pauses
        return [step for span in spans for step in self._add(span)]

    @property
    def tail(self) -> Tail | None:
        """End of the steps so far; None if the next step has begun, or if more than this end is needed to go on."""
        begun = self._batches or self._parts or self._pauses or self._ready or self.evaluation.is_open
        if begun or math.isnan(self._exit) or any(span.end > self._updated for span in self._reductions):
            return None
        return Tail(self.sequence, self._exit, self._updated, self._reduced)

    def go_on(self, tail: Tail, durations: Sequence[float], most_bytes: int) -> None:
        """Go on from `tail`, after usual steps of the fast path.

        They lasted `durations` seconds and reduced at most `most_bytes` each.
        """
        self._asks, self.own_input, self._unasked = True, False, 0
        self._durations.extend(durations)
        self._usual_bytes = max(self._usual_bytes, most_bytes)
        self._reductions = []
        self.sequence, self._exit, self._updated, self._reduced = tail

    def forget_times(self) -> None:
        """Forget the times of all past spans: the clock was set, and coming times may be earlier or later."""
        self._reduced, self._exit, self._updated = -math.inf, UNKNOWN, UNKNOWN
        self._reductions, self._ready, self._pauses, self._idle = [], {}, [], []
        self.evaluation.finish()

    def takes_for_idle(self, begin: float, end: float, net: float) -> bool:
        """Decide whether the host time from `begin` to `end` is a pause between steps; record such a pause as idle.

        `net` seconds of it, more than IDLE_SECONDS, are not in other pauses.
        """
        if self._durations and net <= _IDLE_STEPS * statistics.median(self._durations):
            return False
        self._idle.append(Activity(IDLE, begin, end))
        return True

    def drain_activities(self, now: float) -> list[Activity]:
        """Return the evaluations and idle times that began or ended since the last call; `now` in Unix seconds."""
        if self.evaluation.is_over(now):
            self._end_evaluation()
        idle, self._idle = self._idle, []
        return self.evaluation.drain() + idle

    def _add(self, span: Span) -> list[Step]:
        kind = span.site.kind
        if kind is Kind.RUN:
            return self._finish_run(span)
        if kind is Kind.INPUT:
            self._add_batch(span)
        elif kind is Kind.REDUCE:
            self._reductions.append(self._serialised(span))
        elif kind is Kind.READY:
            self._note_ready(span)
        else:
            self._add_gradient(span)
        return []

    def _add_batch(self, batch: Span) -> None:
        self._asks = True
        if not batch.site.looped:
            self._batches = [older for older in self._batches if self._is_pending(older, batch)]
            if self._batches and self.sequence and batch.begin - self._batches[-1].end > _SAME_BATCH_SECONDS:
                self.evaluation.add(self._batches[0].begin, batch.begin)
                self._batches = []
        self._batches.append(batch)

    def _is_pending(self, batch: Span, newer: Span) -> bool:
        """Decide whether a batch without a run may still get a run: not if its stamp came after the end of its run."""
        if batch.site.looped or batch.site.eager != newer.site.eager:
            return False
        return batch.site.eager or not batch.begin < self._updated

    def _note_ready(self, ready: Span) -> None:
        if ready.site.reduction is not None:
            self._ready.setdefault(ready.site.reduction, {})[ready.site.replica] = ready.end

    def _add_gradient(self, gradient: Span) -> None:
        if self._batches:
            self._parts.append(_Part(self._take_batches(gradient), gradient.end, in_run=False))
        elif self._parts and not self._parts[-1].in_run:
            self._parts[-1] = self._parts[-1]._replace(done=gradient.end)

    def _serialised(self, reduction: Span) -> Span:
        """Return the reduction as it ran: reductions run in turn, however early their tensors are ready."""
        if reduction.begin < self._reduced:
            reduction = reduction._replace(begin=min(self._reduced, reduction.end))
        self._reduced = max(self._reduced, reduction.end)
        return self._beyond_updates(reduction)

    def _beyond_updates(self, reduction: Span) -> Span:
        """Return the part of the reduction after the updates, if no update waits for it."""
        if not reduction.site.overlaps_updates or math.isnan(self._updated):
            return reduction
        return reduction._replace(begin=max(reduction.begin, min(self._updated, reduction.end)))

    def _finish_run(self, run: Span) -> list[Step]:
        inside = [
            span
            for span in self._reductions
            if span.site.in_run and not span.site.overlaps_updates and span.end <= run.end
        ]
        if not self._is_step(run, inside):
            self._finish_other(run)
            return []
        self._end_evaluation()
        ahead = run.site.standalone_optimizer and run.site.looped
        final = [] if ahead and self._parts else self._take_batches(run)
        if not final and self._parts and not self._parts[-1].in_run:
            final = self._parts.pop().batches
        global_step = self._count(run)
        step = self._cut(run, final, inside) if inside else self._whole(run, final)
        micro_batches, local_steps = self._passes(run, final)
        step = step._replace(
            global_step=global_step,
            distribution=run.site.distribution,
            micro_batches=micro_batches,
            local_steps=local_steps,
        )
        steps = _shares(step, run)
        self._remember(steps, run)
        return steps

    def _passes(self, run: Span, final: list[Span]) -> tuple[int, int]:
        """Return the passes (forward and backward) for one update, and the updates up to this reduction, as numbers."""
        updates = sum(part.applies for part in self._parts) + run.site.applies
        if not updates:
            # Without an optimizer it is not known whether the passes before have changed the variables.
            return run.site.micro_batches, 1
        passes = sum(part.passes for part in self._parts)
        passes += run.site.micro_batches if run.site.trains or final else 0
        return max(1, round(passes / updates)), updates

    def _is_step(self, run: Span, inside: list[Span]) -> bool:
        if run.site.trains:
            return bool(inside) or run.site.unsplit
        # Gradients computed elsewhere may be reduced here; what a metric's variables reduce is far less.
        return bool(inside) and max(map(_bytes, inside)) >= _LARGE * self._usual_bytes

    def _finish_other(self, run: Span) -> None:
        """Add a run without reductions: a micro-batch, or evaluation."""
        if run.site.trains:
            self._end_evaluation()
            self._count(run)
            if self._batches or not self._asks:
                batches, begun, site = self._take_batches(run), _begin_of(run), run.site
                part = _Part(
                    batches=batches,
                    done=run.end,
                    in_run=True,
                    begun=begun,
                    earlier=self._earlier(site),
                    passes=site.micro_batches,
                    applies=site.applies,
                )
                self._parts.append(part)
            elif self._parts:
                self._parts[-1] = self._parts[-1]._replace(done=run.end)
        elif batches := self._take_batches(run):
            # Whatever it waited for belongs to no training step.
            self._reductions = [span for span in self._reductions if span.end > run.end]
            self.evaluation.add(batches[-1].begin, run.end)

    def _end_evaluation(self) -> None:
        if (interval := self.evaluation.finish()) is not None:
            self._pauses.append(interval)

    def _count(self, run: Span) -> int | None:
        counter = run.site.counter
        if counter is None:
            return None
        counter.count += run.site.updates
        return counter.base + counter.count

    def _take_batches(self, user: Span) -> list[Span]:
        """Take the batches of this run, or gradient.

        Inside a loop batches and runs alternate, though batches may be some ahead. Elsewhere all batches are this
        run's, but for those that Python fetched while it ran.
        """
        if user.site.looped:
            taken, self._batches = self._batches[:1], self._batches[1:]
        else:
            taken = [batch for batch in self._batches if not batch.site.eager or batch.end <= user.begin]
            self._batches = [batch for batch in self._batches if batch not in taken]
        return taken

    def _cut(self, run: Span, final: list[Span], inside: list[Span]) -> Step:
        large = _gradients(inside)
        gradients = max(large, key=lambda span: span.end)
        others = [span for span in self._reductions if span.end < gradients.end]
        line = self._line(final, [(span.begin, span.end) for span in others])
        self._lead_to_compute(line, final, run._replace(begin=min(run.begin, gradients.begin)))
        line.go(COMPUTE, gradients.begin)
        self._find_idle(line)
        collective = gradients.site.collective
        reduced = max(0.0, gradients.end - line.at) + line.waited
        return Step(
            sequence=self.sequence,
            end=gradients.end,
            update=line.phases[UPDATE],
            host=line.phases[HOST],
            input=line.phases[INPUT],
            compute=line.phases[COMPUTE],
            reduce=reduced if collective else UNKNOWN,
            clamped=line.clamped,
            bytes=round(sum(map(_bytes, large))) if collective else 0,
            gathered=round(sum(map(_gathered, large))) if collective else 0,
            dense_bytes=sum(span.site.dense_bytes for span in large) if collective else 0,
            wire_type=max(large, key=_bytes).site.wire_type if collective else "",
            examples=self._examples(final),
            earlier=self._earlier_in_all(self._earlier(gradients.site)),
        )

    def _whole(self, run: Span, final: list[Span]) -> Step:
        """Return the step of a run without stamps between its batch and its updates."""
        line = self._line(final, [])
        self._lead_to_compute(line, final, run)
        self._find_idle(line)
        return Step(
            sequence=self.sequence,
            end=run.end,
            update=UNKNOWN,
            host=line.phases[HOST],
            input=UNKNOWN if run.site.asks else line.phases[INPUT],
            compute=UNKNOWN,
            reduce=UNKNOWN,
            examples=self._examples(final),
        )

    def _line(self, final: list[Span], waits: list[Interval]) -> Timeline:
        batches = [batch for part in self._parts for batch in part.batches] + final
        start = self._exit if not math.isnan(self._exit) or not batches else batches[0].begin
        line = Timeline(start, waits, union(self._pauses))
        if math.isnan(self._exit):
            line.phases[UPDATE] = line.phases[HOST] = UNKNOWN
        else:
            line.go(UPDATE, self._updated)
        for part in self._parts:
            _fetch(line, part.batches, part.begun)
            line.go(COMPUTE, part.done)
        return line

    def _lead_to_compute(self, line: Timeline, final: list[Span], run: Span) -> None:
        asked = final or run.site.asks or any(part.batches for part in self._parts)
        self._unasked = 0 if asked else self._unasked + 1
        # A loop in a graph may make several steps with one batch.
        self.own_input = self._unasked > (REMEMBERED if self._asks else 0)
        if final or not self._parts:
            _fetch(line, final, _begin_of(run))
        else:
            line.go(HOST, run.begin)

    def _find_idle(self, line: Timeline) -> None:
        for phase, begin, end, net in line.legs:
            if phase == HOST and net > IDLE_SECONDS:
                begun = max([begin, *(pause[1] for pause in line.pauses if pause[1] < end)])
                if self.takes_for_idle(begun, end, net):
                    line.phases[HOST] -= net

    def _examples(self, final: list[Span]) -> float:
        parts = [*(part.batches for part in self._parts), final]
        # Data sets read together each give a part of the same examples.
        return sum(batches[0].site.examples + batches[0].amount for batches in parts if batches)

    def _earlier(self, reduction: Site) -> tuple[float, ...]:
        ready = self._ready.pop(reduction, {})
        slowest = max(ready.values(), default=0.0)
        return tuple(slowest - ready[replica] for replica in sorted(ready))

    def _earlier_in_all(self, last: tuple[float, ...]) -> tuple[float, ...]:
        """Return the sum over all micro-batches, at whose ends replicas wait for the slowest."""
        alike = [part.earlier for part in self._parts if len(part.earlier) == len(last)]
        return tuple(map(sum, zip(last, *alike, strict=True)))

    def _remember(self, steps: list[Step], run: Span) -> None:
        step = steps[-1]
        if not math.isnan(self._exit):
            self._durations.append((step.end - self._exit) / len(steps))
        self.sequence += len(steps)
        self.steps_of_call = len(steps)
        self._exit, self._updated = step.end, run.end
        self._usual_bytes = max(self._usual_bytes, step.bytes)
        self._parts = []
        self._reductions = [self._beyond_updates(span) for span in self._reductions if span.end > step.end]
        self._pauses = [pause for pause in self._pauses if pause[1] > step.end]


def _shares(step: Step, run: Span) -> list[Step]:
    """Return the steps of a run that makes several: equal shares of it. Nothing tells when one of them ended."""
    count = run.site.updates
    if count == 1:
        return [step]
    phases = {phase: getattr(step, phase) for phase in PHASES}
    length = sum(seconds for seconds in phases.values() if not math.isnan(seconds))
    if math.isnan(step.compute):
        length += run.end - run.begin
    return [
        step._replace(
            sequence=step.sequence + index,
            end=step.end - length * (count - 1 - index) / count,
            **{phase: seconds / count for phase, seconds in phases.items()},
            bytes=round(step.bytes / count),
            gathered=round(step.gathered / count),
            dense_bytes=round(step.dense_bytes / count),
            earlier=tuple(seconds / count for seconds in step.earlier),
            global_step=None if step.global_step is None else step.global_step - (count - 1 - index),
        )
        for index in range(count)
    ]


def _gradients(reductions: list[Span]) -> list[Span]:
    """Return the large reductions of a run: a small one is of a counter or a statistic, and may come later."""
    largest = max(map(_bytes, reductions))
    return [span for span in reductions if _bytes(span) >= _LARGE * largest]


def _bytes(reduction: Span) -> float:
    return reduction.site.bytes + reduction.amount


def _gathered(reduction: Span) -> float:
    return reduction.site.gathered + (reduction.amount if reduction.site.gathers_more else 0.0)


def _begin_of(run: Span) -> float:
    return run.begin if run.site.begins else UNKNOWN


def _fetch(line: Timeline, batches: list[Span], begun: float) -> None:
    """Go on to the end of these batches or, without any, to `begun`: the program has brought the batch itself.

    Between fetching a batch and the run, Python prepares the batch: this time is on the host, too.
    """
    if not batches:
        line.go(HOST, begun)
        line.go(INPUT, begun)
    for batch in batches:
        line.go(HOST, batch.begin)
        line.go(INPUT, batch.end)
    if batches and batches[-1].site.eager and not math.isnan(begun):
        line.go(HOST, begun)
