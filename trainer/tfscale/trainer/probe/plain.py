"""Many usual steps at once, as columns: what `StepAssembler` says of each, without a Python object for each step.

A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at most what metrics
reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from tfscale.trainer.probe.spans import Kind, Program, Site
from tfscale.trainer.probe.steps import IDLE_SECONDS, REMEMBERED, Step, StepAssembler, Tail
from tfscale.trainer.probe.table import SpanTable, numbers_in
from tfscale.trainer.probe.timeline import UNKNOWN

_INPUT, _REDUCE, _RUN, _BESIDE, _OTHER = range(5)
_HOST = 1
"""Among the phases."""
PARTS = 3
"""Spans of a usual step, but for those beside it."""


@dataclass(frozen=True, eq=False)
class StepColumns(Sequence[Step]):
    """Steps in a row of one program with one replica a process, as arrays."""

    first: int
    """The sequence number of the first."""
    end: np.ndarray
    phases: tuple[np.ndarray, ...]
    """The five of `Step`, in the same order."""
    bytes: np.ndarray
    examples: np.ndarray
    global_step: np.ndarray | None
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
        update, host, input_, compute, reduce = (column[index].item() for column in self.phases)
        return Step(
            sequence=self.first + index,
            end=self.end[index].item(),
            update=update,
            host=host,
            input=input_,
            compute=compute,
            reduce=reduce,
            bytes=self.bytes[index].item(),
            examples=self.examples[index].item(),
            global_step=None if self.global_step is None else self.global_step[index].item(),
            program=self.program,
        )

    def without_phases(self) -> StepColumns:
        """The steps of which only their ends are to be believed."""
        return replace(self, phases=(np.full(len(self), UNKNOWN),) * len(self.phases))


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
    edges = _edges(steps, tail)
    legs = np.diff(edges, axis=0)
    if not (legs >= 0.0).all():
        return None
    phases = [*legs[:4]]
    if len(main) < len(places):
        phases = _without(_waits(spans, places, edges[1]), phases, edges)
    found = _columns(steps, tail, phases, _idle(edges, phases[_HOST], assembler), sites)
    last = spans.end[(places == _REDUCE) | (places == _BESIDE)][-1]
    after = Tail(tail.sequence + len(found), found.end[-1].item(), edges[-1][-1].item(), last.item())
    assembler.go_on(after, found.bytes.max().item())
    return found


def _places(spans: SpanTable, sites: Sequence[Site]) -> np.ndarray:
    """Which part of a usual step each span is."""
    place = np.zeros(len(sites), np.int64)
    for number in numbers_in(spans.site):
        place[number] = _place(sites[number])
    places: np.ndarray = place[spans.site]
    return places


def _after(first: float, values: np.ndarray) -> np.ndarray:
    """Of each the value of the one before."""
    return np.concatenate([[first], values[:-1]])


def _serialised(spans: SpanTable, places: np.ndarray, reduced: float) -> np.ndarray:
    """When each span began. Collectives run one after the other, however early their tensors were ready."""
    begin = spans.begin.copy()
    reductions = np.flatnonzero((places == _REDUCE) | (places == _BESIDE))
    ends = spans.end[reductions]
    begin[reductions] = np.maximum(begin[reductions], np.minimum(_after(reduced, ends), ends))
    return begin


def _edges(steps: SpanTable, tail: Tail) -> list[np.ndarray]:
    """Of each step, in the order that they have in a usual one."""
    (asked, entered, _), (ready, reduced, updated) = steps.begin.T, steps.end.T
    return [_after(tail.exit, reduced), _after(tail.updated, updated), asked, ready, entered, reduced, updated]


def _waits(spans: SpanTable, places: np.ndarray, updates: np.ndarray) -> SpanTable:
    """The reductions beside updates that steps waited for; instead of the site, which step."""
    beside = places == _BESIDE
    steps, reductions = np.cumsum(places == _RUN)[beside], np.cumsum(places == _REDUCE)[beside]
    # One that ends between gradients and run is over before anything waits for it.
    waited = (steps == reductions) & (steps < len(updates))
    waits = spans.where(beside).where(waited)
    steps = steps[waited]
    return waits._replace(site=steps, begin=np.maximum(waits.begin, np.minimum(updates[steps], waits.end)))


def _without(waits: SpanTable, phases: list[np.ndarray], edges: list[np.ndarray]) -> list[np.ndarray]:
    """The phases, which go from edge to edge, without the waits."""
    return [
        np.maximum(0.0, phase - _overlap(waits, first, last))
        for phase, first, last in zip(phases, edges[:4], edges[1:5], strict=True)
    ]


def _overlap(waits: SpanTable, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Seconds of each step's leg that waits cover."""
    covered = np.minimum(last[waits.site], waits.end) - np.maximum(first[waits.site], waits.begin)
    return np.bincount(waits.site, np.maximum(0.0, covered), minlength=len(first))


def _idle(edges: list[np.ndarray], host: np.ndarray, assembler: StepAssembler) -> np.ndarray:
    """Seconds of each step's time on the host that were a pause, which are taken off it."""
    idle, lasted, seen = np.zeros_like(host), edges[5] - edges[0], 0
    for index in np.flatnonzero(host > IDLE_SECONDS).tolist():
        assembler.remember(lasted[seen:index][-REMEMBERED:].tolist())
        seen = index
        if assembler.takes_for_idle(edges[1][index].item(), edges[2][index].item(), host[index].item()):
            idle[index], host[index] = host[index], 0.0
    assembler.remember(lasted[seen:][-REMEMBERED:].tolist())
    return idle


def _columns(
    steps: SpanTable, tail: Tail, phases: list[np.ndarray], idle: np.ndarray, sites: Sequence[Site]
) -> StepColumns:
    end = steps.end[:, _REDUCE]
    reduced = end - _after(tail.exit, end) - idle
    for phase in phases:
        reduced = reduced - phase
    gradients, run = (sites[number] for number in steps.site[0, _REDUCE:])
    if not gradients.collective:
        reduced = np.full(len(end), UNKNOWN)
    return StepColumns(
        first=tail.sequence,
        end=end,
        phases=(*phases, reduced),
        bytes=np.rint(_amounts(sites, steps, _REDUCE)).astype(np.int64) * gradients.collective,
        examples=_amounts(sites, steps, _INPUT),
        global_step=_count(sites, steps.site[:, _RUN]),
        program=run.program,
    )


def _amounts(sites: Sequence[Site], steps: SpanTable, place: int) -> np.ndarray:
    """Bytes of each step's gradients, or examples of its batch."""
    numbers = steps.site[:, place]
    fixed = np.zeros(len(sites))
    for number in numbers_in(numbers):
        fixed[number] = sites[number].bytes + sites[number].examples
    amounts: np.ndarray = steps.amount[:, place] + fixed[numbers]
    return amounts


def _count(sites: Sequence[Site], runs: np.ndarray) -> np.ndarray | None:
    """Has the optimizers' iterations of these runs been counted; the number of each, None where one has no counter."""
    counts = np.zeros(len(runs), np.int64)
    counters = {id(sites[number].counter): sites[number].counter for number in numbers_in(runs)}
    for counter in counters.values():
        counted = np.isin(runs, [number for number in numbers_in(runs) if sites[number].counter is counter])
        if counter is not None:
            counts[counted] = counter.base + counter.count + 1 + np.arange(counted.sum())
            counter.count += int(counted.sum())
    return None if None in counters.values() else counts
