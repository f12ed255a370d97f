"""Many usual steps at once, as columns: what `StepAssembler` says of each, without a Python object for each step.

A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at most what metrics
reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, overload

import numpy as np
from tfscale.trainer.probe.spans import Kind, Program, Site
from tfscale.trainer.probe.steps import IDLE_SECONDS, REMEMBERED, Step, StepAssembler, Tail
from tfscale.trainer.probe.table import RowKind, SpanTable, numbers_in
from tfscale.trainer.probe.timeline import UNKNOWN

_INPUT, _REDUCE, _RUN, _BESIDE, _OTHER = range(5)
PARTS = 3
"""Spans of a usual step, but for those beside it."""
_EXIT, _BEGIN, _ASKED, _READY, _ENTERED, _REDUCED, _UPDATED = range(7)
"""Edges of a usual step: the step before was reduced and updated, its own batch was asked for and ready, its gradients
were ready and reduced, its variables updated."""
_HOST, _WAIT = 1, 4
"""Among the phases, which go from edge to edge: between the updates and the next batch, and the last."""


@dataclass(frozen=True, eq=False)
class StepColumns(Sequence[Step]):
    """Steps in a row of one program with one replica a process, as arrays."""

    first: int
    """The sequence number of the first."""
    end: np.ndarray
    phases: np.ndarray
    """(5, k): those of `Step`, in the same order."""
    bytes: Sequence[int]
    examples: Sequence[float]
    global_step: Sequence[int] | None
    program: Program

    def __len__(self) -> int:
        return len(self.end)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        found = range(len(self))[index]
        return self._step(found) if isinstance(found, int) else [self._step(each) for each in found]

    def _step(self, index: int) -> Step:
        update, host, input_, compute, reduce = self.phases[:, index].tolist()
        return Step(
            sequence=self.first + index,
            end=self.end[index].item(),
            update=update,
            host=host,
            input=input_,
            compute=compute,
            reduce=reduce,
            bytes=self.bytes[index],
            examples=self.examples[index],
            global_step=None if self.global_step is None else self.global_step[index],
            program=self.program,
        )

    def without_phases(self) -> StepColumns:
        """The steps of which only their ends are to be believed."""
        return replace(self, phases=np.full_like(self.phases, UNKNOWN))


def are_usual(sites: Sequence[Site]) -> bool:
    """Whether these can be the sites of one program's usual steps, of which several functions may have been traced."""
    programs = {site.program for site in sites if site.kind is Kind.RUN}
    collectives = {site.collective for site in sites if _place(site) == _REDUCE}
    return _OTHER not in map(_place, sites) and len(programs) <= 1 and len(collectives) <= 1


def _place(site: Site) -> int:
    """Which part of a usual step a site tells."""
    if site.kind is Kind.REDUCE and site.beside:
        return _BESIDE
    if site.kind is Kind.REDUCE and site.in_run:
        return _REDUCE
    if site.kind is Kind.RUN and site.trains:
        return _RUN
    return _INPUT if site.kind is Kind.INPUT else _OTHER


class UsualRow(NamedTuple):
    """Where the numbers of a step stand in rows of one kind, each of which tells one, and nothing else."""

    kind: int
    input: Site
    gradients: Site
    run: Site
    moments: tuple[int, ...]
    """The five edges of its own."""
    examples: int | None
    bytes: int | None
    """Both beyond what is fixed with the site."""

    @property
    def updated(self) -> int:
        """The place of the last moment, when a step is over."""
        return self.moments[-1]


def usual_row(number: int, kind: RowKind) -> UsualRow | None:
    """None where rows of this kind tell something else."""
    spans = {_place(site): (site, fields) for site, fields in kind.spans}
    if len(kind.spans) != PARTS or spans.keys() != {_INPUT, _REDUCE, _RUN}:
        return None
    (input_, asked), (gradients, entered), (run, updated) = (spans[place] for place in range(PARTS))
    moments = asked.begin, asked.end, entered.begin, entered.end, updated.end
    return UsualRow(number, input_, gradients, run, moments, asked.amount, entered.amount)


def fold(spans: SpanTable, sites: Sequence[Site], assembler: StepAssembler) -> StepColumns | None:
    """What `assembler.feed` makes of these spans of usual sites, in the order of their ends.

    None, and nothing is done, where they are no usual steps.
    """
    tail = assembler.tail
    places = _places(spans, sites)
    main = np.flatnonzero(places != _BESIDE)
    if tail is None or len(main) % PARTS or (places[main].reshape(-1, PARTS) != range(PARTS)).any():
        return None
    spans = spans._replace(begin=_serialised(spans, places, tail.reduced))
    steps = spans.where(main).reshaped(-1, PARTS)
    (asked, entered, _), (ready, reduced, updated) = steps.begin.T, steps.end.T
    edges = _edges(np.array([asked, ready, entered, reduced, updated]), tail)
    legs = np.diff(edges, axis=0)
    if not legs.min() >= 0.0:
        return None
    phases = legs[:_WAIT]
    if len(main) < len(places):
        phases = _without(_waits(spans, places, edges[_BEGIN]), phases, edges)
    gradients, run = (sites[number] for number in steps.site[0, _REDUCE:])
    waited = reduced - edges[_EXIT] - phases.sum(axis=0) if gradients.collective else np.full(len(reduced), UNKNOWN)
    _take_pauses(phases[_HOST], edges, assembler)
    found = StepColumns(
        first=tail.sequence,
        end=reduced,
        phases=np.concatenate([phases, [waited]]),
        bytes=(np.rint(_amounts(sites, steps, _REDUCE)).astype(np.int64) * gradients.collective).tolist(),
        examples=_amounts(sites, steps, _INPUT).tolist(),
        global_step=_count(sites, steps.site[:, _RUN]),
        program=run.program,
    )
    last = spans.end[(places == _REDUCE) | (places == _BESIDE)][-1].item()
    after = Tail(tail.sequence + len(found), edges[_REDUCED, -1].item(), edges[_UPDATED, -1].item(), last)
    assembler.go_on(after, max(found.bytes))
    return found


def _places(spans: SpanTable, sites: Sequence[Site]) -> np.ndarray:
    """Which part of a usual step each span is."""
    place = np.zeros(len(sites), np.int64)
    for number in numbers_in(spans.site):
        place[number] = _place(sites[number])
    places: np.ndarray = place[spans.site]
    return places


def _serialised(spans: SpanTable, places: np.ndarray, reduced: float) -> np.ndarray:
    """When each span began. Collectives run one after the other, however early their tensors were ready."""
    begin = spans.begin.copy()
    reductions = np.flatnonzero((places == _REDUCE) | (places == _BESIDE))
    ends = spans.end[reductions]
    before = np.concatenate([[reduced], ends[:-1]])
    begin[reductions] = np.maximum(begin[reductions], np.minimum(before, ends))
    return begin


def _edges(moments: np.ndarray, tail: Tail) -> np.ndarray:
    """(7, k) of each step's own, (5, k)."""
    edges = np.empty((_UPDATED + 1, moments.shape[1]))
    edges[_ASKED:] = moments
    for before, last, end in ((_EXIT, tail.exit, _REDUCED), (_BEGIN, tail.updated, _UPDATED)):
        edges[before, 0] = last
        edges[before, 1:] = edges[end, :-1]
    return edges


def _waits(spans: SpanTable, places: np.ndarray, updates: np.ndarray) -> SpanTable:
    """The reductions beside updates that steps waited for; instead of the site, which step."""
    beside = places == _BESIDE
    steps, reductions = np.cumsum(places == _RUN)[beside], np.cumsum(places == _REDUCE)[beside]
    # One that ends between gradients and run is over before anything waits for it.
    waited = (steps == reductions) & (steps < len(updates))
    waits = spans.where(beside).where(waited)
    steps = steps[waited]
    return waits._replace(site=steps, begin=np.maximum(waits.begin, np.minimum(updates[steps], waits.end)))


def _without(waits: SpanTable, phases: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The phases, which go from edge to edge, without the waits."""
    covered = np.array([_overlap(waits, *leg) for leg in pairwise(edges[: _WAIT + 1])])
    left: np.ndarray = np.maximum(0.0, phases - covered)
    return left


def _overlap(waits: SpanTable, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Seconds of each step's leg that waits cover."""
    covered = np.minimum(last[waits.site], waits.end) - np.maximum(first[waits.site], waits.begin)
    return np.bincount(waits.site, np.maximum(0.0, covered), minlength=len(first))


def _take_pauses(host: np.ndarray, edges: np.ndarray, assembler: StepAssembler) -> None:
    """Take off the steps' time on the host what was a pause."""
    lasted, seen = edges[_REDUCED] - edges[_EXIT], 0
    if host.max() > IDLE_SECONDS:
        for index in np.flatnonzero(host > IDLE_SECONDS).tolist():
            assembler.remember(lasted[seen:index][-REMEMBERED:].tolist())
            seen = index
            begin, end = edges[_BEGIN:_READY, index].tolist()
            if assembler.takes_for_idle(begin, end, host[index].item()):
                host[index] = 0.0
    assembler.remember(lasted[seen:][-REMEMBERED:].tolist())


def _amounts(sites: Sequence[Site], steps: SpanTable, place: int) -> np.ndarray:
    """Bytes of each step's gradients, or examples of its batch."""
    numbers = steps.site[:, place]
    fixed = np.zeros(len(sites))
    for number in numbers_in(numbers):
        fixed[number] = sites[number].bytes + sites[number].examples
    amounts: np.ndarray = steps.amount[:, place] + fixed[numbers]
    return amounts


def _count(sites: Sequence[Site], runs: np.ndarray) -> list[int] | None:
    """Has the optimizers' iterations of these runs been counted; the number of each, None where one has no counter."""
    counts = np.zeros(len(runs), np.int64)
    counters = {id(sites[number].counter): sites[number].counter for number in numbers_in(runs)}
    for counter in counters.values():
        counted = np.isin(runs, [number for number in numbers_in(runs) if sites[number].counter is counter])
        if counter is not None:
            counts[counted] = counter.base + counter.count + 1 + np.arange(counted.sum())
            counter.count += int(counted.sum())
    return None if None in counters.values() else counts.tolist()
