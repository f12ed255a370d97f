"""Fast path for usual steps: one call of the C library assembles all of a read, without a Python object for each.

A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at most reductions
that no update waits for. `StepAssembler` assembles the same steps at some 20 us each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import overload

import numpy as np
from tfscale.core.records import PHASES
from tfscale.trainer.probe.native import library
from tfscale.trainer.probe.spans import Kind, Program, Site
from tfscale.trainer.probe.steps import IDLE_SECONDS, Step, StepAssembler, Tail
from tfscale.trainer.probe.table import SpanTable, numbers_in
from tfscale.trainer.probe.timeline import UNKNOWN


class Part(IntEnum):
    """Part of a usual step that a span is."""

    INPUT = 0
    REDUCE = 1
    RUN = 2
    OVERLAPPING = 3
    OTHER = 4


@dataclass(frozen=True, eq=False)
class UsualSteps(Sequence[Step]):
    """Consecutive steps of one program with one replica a process, as arrays."""

    first: int
    """Sequence number of the first step."""
    end: np.ndarray
    """(k,) Unix seconds."""
    phases: np.ndarray
    """(5, k) seconds, in the order of PHASES; NaN unknown."""
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
        chosen = range(len(self))[index]
        return self._step(chosen) if isinstance(chosen, int) else [self._step(number) for number in chosen]

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

    def without_phases(self) -> UsualSteps:
        """Return the steps with unknown phases."""
        return replace(self, phases=np.full_like(self.phases, UNKNOWN))


def part_of(site: Site) -> Part:
    """Return the part of a usual step that the spans of a site are."""
    if site.kind is Kind.REDUCE and site.overlaps_updates:
        return Part.OVERLAPPING
    if site.kind is Kind.REDUCE and site.in_run:
        return Part.REDUCE
    if site.kind is Kind.RUN and site.trains:
        return Part.RUN
    return Part.INPUT if site.kind is Kind.INPUT else Part.OTHER


def are_usual(sites: Sequence[Site]) -> bool:
    """Decide whether these can be the sites of one program's usual steps; its function may have been traced again."""
    parts = [part_of(site) for site in sites]
    programs = {site.program for site, part in zip(sites, parts, strict=True) if part is Part.RUN}
    collectives = {site.collective for site, part in zip(sites, parts, strict=True) if part is Part.REDUCE}
    return Part.OTHER not in parts and len(programs) <= 1 and len(collectives) <= 1


def assemble(spans: SpanTable, sites: Sequence[Site], assembler: StepAssembler) -> tuple[UsualSteps | None, int]:
    """Assemble the usual steps at the start of `spans`, as `assembler` would.

    `spans` are in the order of their ends. Returns the steps, None without any, and how many spans they have; the
    assembler goes on after them.
    """
    fast, tail = _fast_path(), assembler.tail
    numbers = numbers_in(spans.site)
    if fast is None or tail is None or not are_usual([sites[number] for number in numbers]):
        return None, 0
    part = _by_site(sites, numbers, part_of)[spans.site]
    taken, after, columns = fast(part, spans, tail)
    if not taken:
        return None, 0
    steps = _steps(spans.first(taken), part[:taken], columns, sites, tail.sequence)
    assembler.go_on(after, np.diff(steps.end, prepend=tail.exit).tolist(), max(steps.bytes))
    return steps, taken


_FastPath = Callable[[np.ndarray, SpanTable, Tail], tuple[int, Tail, np.ndarray]]


@functools.cache
def _fast_path() -> _FastPath | None:
    """Return what assembles parts and spans after a tail: how many it took, the new tail, and the steps' columns.

    None where there is no library, or its numbers have another order.
    """
    native = library()
    if native is None or native.tfscale_usual_steps_layout().decode().lower() != _layout():
        return None

    def assembled(part: np.ndarray, spans: SpanTable, tail: Tail) -> tuple[int, Tail, np.ndarray]:
        edges = np.array(tail[1:])
        columns = np.empty((1 + len(PHASES), len(part)))
        begin, end = np.ascontiguousarray(spans.begin), np.ascontiguousarray(spans.end)
        arrays = (each.ctypes.data for each in (part, begin, end))
        outputs = (each.ctypes.data for each in (edges, columns))
        taken: int = native.tfscale_usual_steps(*arrays, len(part), IDLE_SECONDS, *outputs)
        number = int(np.count_nonzero(part[:taken] == Part.RUN))
        return taken, Tail(tail.sequence + number, *edges.tolist()), columns[:, :number]

    return assembled


def _layout() -> str:
    """Return the names of the numbers that the library is given and gives back, in the form in which it names them."""
    names = [part.name.lower() for part in Part if part is not Part.OTHER], Tail._fields[1:], ("end", *PHASES)
    return "/ ".join("".join(f"{name} " for name in group) for group in names)


def _steps(spans: SpanTable, part: np.ndarray, columns: np.ndarray, sites: Sequence[Site], first: int) -> UsualSteps:
    inputs, gradients, runs = (
        spans.where(np.flatnonzero(part == each)) for each in (Part.INPUT, Part.REDUCE, Part.RUN)
    )
    collective = sites[gradients.site[0]].collective
    if not collective:
        columns[-1] = UNKNOWN
    return UsualSteps(
        first=first,
        end=columns[0],
        phases=columns[1:],
        bytes=(np.rint(_amounts(gradients, sites)).astype(np.int64) * collective).tolist(),
        examples=_amounts(inputs, sites).tolist(),
        global_step=_count(runs.site, sites),
        program=sites[runs.site[0]].program,
    )


def _amounts(spans: SpanTable, sites: Sequence[Site]) -> np.ndarray:
    """Return the bytes of reductions, or the examples of batches."""
    fixed = _by_site(sites, numbers_in(spans.site), lambda site: site.bytes + site.examples)
    amounts: np.ndarray = spans.amount + fixed[spans.site]
    return amounts


def _count(runs: np.ndarray, sites: Sequence[Site]) -> list[int] | None:
    """Count the iterations of these runs' optimizers, and return each run's; None where an optimizer has no counter."""
    counts = np.zeros(len(runs), np.int64)
    numbers = numbers_in(runs)
    counters = {id(counter): counter for number in numbers if (counter := sites[number].counter) is not None}
    for counter in counters.values():
        counted = np.isin(runs, [number for number in numbers if sites[number].counter is counter])
        counts[counted] = counter.base + counter.count + 1 + np.arange(counted.sum())
        counter.count += int(counted.sum())
    return None if any(sites[number].counter is None for number in numbers) else counts.tolist()


def _by_site(sites: Sequence[Site], numbers: Sequence[int], value: Callable[[Site], int]) -> np.ndarray:
    """Return (n,) int64, by the number of a site; those of `numbers` have their value."""
    values = np.zeros(len(sites), np.int64)
    for number in numbers:
        values[number] = value(sites[number])
    return values
