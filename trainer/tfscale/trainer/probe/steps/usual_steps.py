"""Fast path for usual steps: one call of the C library assembles all steps of a read, without Python objects for each.

A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at most reductions
that no update waits for. `StepAssembler` assembles the same steps at some 20 us each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from operator import sub
from typing import NamedTuple, overload

import numpy as np
from tfscale.core.records.step_batch import PHASES
from tfscale.trainer.probe.rows.native import library
from tfscale.trainer.probe.rows.row_kinds import RowKinds, numbers_in
from tfscale.trainer.probe.rows.row_layout import WIDTH
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Site
from tfscale.trainer.probe.steps.assembler import IDLE_SECONDS, REMEMBERED, StepAssembler
from tfscale.trainer.probe.steps.step import Step, Tail
from tfscale.trainer.probe.steps.timeline import UNKNOWN


class Part(IntEnum):
    """Part of a usual step: the kind of its span."""

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
    bytes: np.ndarray
    """(k,) of each step's reductions of gradients."""
    examples: np.ndarray
    """(k,) of each step's batch."""
    global_step: range | None
    distribution: Distribution
    wire_type: str = ""
    micro_batches: int = 1

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
            bytes=round(self.bytes[index].item()),
            wire_type=self.wire_type,
            micro_batches=self.micro_batches,
            examples=self.examples[index].item(),
            global_step=None if self.global_step is None else self.global_step[index],
            distribution=self.distribution,
        )

    def without_phases(self) -> UsualSteps:
        """Return these steps with all their phases unknown."""
        return replace(self, phases=np.full_like(self.phases, UNKNOWN))


class _Fields(NamedTuple):
    """Description of a span in a row of one kind (`usual_steps.c`)."""

    part: int
    begin: int
    end: int
    amount: int
    """Places of the span's numbers in the row; 0 for none."""
    fixed: int
    """Examples of a batch, or bytes of a reduction, as fixed with the site."""
    group: int
    """Number that is equal in all steps of a program: of a run's site, or whether a reduction is a collective."""


_MOST_SPANS = WIDTH - 1
_MOST_STEPS = 3
"""Most steps of three or more spans in one row: the steps of a loop that is unrolled in its graph share rows."""
_COLUMNS = ("end", *PHASES, "bytes", "examples")


def part_of(site: Site) -> Part:
    """Return the part of a usual step that the spans of a site are."""
    if site.kind is Kind.REDUCE and site.overlaps_updates:
        return Part.OVERLAPPING
    if site.kind is Kind.REDUCE and site.in_run:
        # What is gathered is counted apart, by the assembler.
        return Part.OTHER if site.gathered or site.gathers_more else Part.REDUCE
    if site.kind is Kind.RUN and site.trains:
        return Part.RUN if site.updates == 1 else Part.OTHER
    return Part.INPUT if site.kind is Kind.INPUT else Part.OTHER


def are_usual(sites: Sequence[Site]) -> bool:
    """Decide whether these can be the sites of one program's usual steps; its function may have been retraced."""
    parts = [part_of(site) for site in sites]
    distributions = {site.distribution for site, part in zip(sites, parts, strict=True) if part is Part.RUN}
    collectives = {site.collective for site, part in zip(sites, parts, strict=True) if part is Part.REDUCE}
    return Part.OTHER not in parts and len(distributions) <= 1 and len(collectives) <= 1


class TakenSteps(NamedTuple):
    """Steps that the fast path has assembled, None without any."""

    steps: UsualSteps | None
    rows: np.ndarray
    """Remaining rows, with spans after the steps."""
    is_complete: bool
    """True if nothing else but usual steps ended by the horizon."""


class FastPath:
    """Assembler of usual steps; after it `assembler` goes on. It keeps only the layouts of rows."""

    def __init__(self, sites: Sequence[Site], kinds: RowKinds, assembler: StepAssembler) -> None:
        self._sites = sites
        self._kinds = kinds
        self._assembler = assembler
        self._library = _library()
        self._described: set[int] = set()
        self._layouts = np.zeros((0, _MOST_SPANS, len(_Fields._fields)), np.int64)
        """(kinds, spans, fields); zeros where a kind is not described yet, or has no more spans."""
        self._layouts_at: int | None = None
        """Address of the layouts."""

    def cut_usual(self, rows: np.ndarray, partly_taken: int, until: float, horizon: float) -> TakenSteps:
        """Take the usual steps that ended by `horizon`, up to the first span outside usual steps.

        Args:
            rows: (k, WIDTH) in the order in which they were written.
            partly_taken: number of first rows whose spans up to `until` were taken before.
            until: Unix seconds.
            horizon: Unix seconds; later spans are not settled.
        """
        tail = self._assembler.tail
        if self._library is None or tail is None:
            return TakenSteps(None, rows, False)
        rows, count = np.array(rows), ctypes.c_int64(len(rows))
        self._describe(numbers_in(rows[:, 0].astype(np.int64)))
        columns = np.empty((len(_COLUMNS), _MOST_STEPS * len(rows)))
        groups, edges = (ctypes.c_int64 * 2)(), (ctypes.c_double * 3)(*tail[1:])
        result: int = self._library.tfscale_usual_steps(
            rows.ctypes.data,
            ctypes.byref(count),
            partly_taken,
            until,
            self._layouts_at,
            len(self._layouts),
            horizon,
            IDLE_SECONDS,
            groups,
            edges,
            columns.ctypes.data,
            columns.shape[1],
        )
        number = result if result >= 0 else -1 - result
        if not number:
            return TakenSteps(None, rows, result >= 0)
        steps = _steps(columns[:, :number], tail.sequence, self._sites[groups[0]], bool(groups[1]))
        ends = [tail.exit, *steps.end[-REMEMBERED - 1 :].tolist()][-REMEMBERED - 1 :]
        durations = list(map(sub, ends[1:], ends))
        after = Tail(tail.sequence + number, *edges)
        self._assembler.go_on(after, durations, round(steps.bytes.max().item()))
        return TakenSteps(steps, rows[: count.value], result >= 0)

    def _describe(self, numbers: Iterable[int]) -> None:
        """Add the layouts of these kinds of rows; the sites of a kind no longer change once a row has come."""
        new = set(numbers) - self._described
        if not new:
            return
        more = max(new) + 1 - len(self._layouts)
        if more > 0:
            self._layouts = np.concatenate([self._layouts, np.zeros((more, *self._layouts.shape[1:]), np.int64)])
        for number in new:
            for index, (site, place) in enumerate(self._kinds.spans(number)):
                fixed = site.examples if site.kind is Kind.INPUT else site.bytes
                self._layouts[number, index] = part_of(site), *place, fixed, self._group(site)
        self._described |= new
        self._layouts_at = self._layouts.ctypes.data

    def _group(self, site: Site) -> int:
        if site.kind is not Kind.RUN:
            return int(site.collective)
        alike = (
            run
            for run in self._sites
            if run.kind is Kind.RUN and run.counter is site.counter and run.distribution == site.distribution
        )
        return next(alike).number


def _library() -> ctypes.CDLL | None:
    """Return the C library; None if it was not built, or has the numbers in another order than the classes here."""
    native = library()
    if native is None or native.tfscale_usual_steps_layout().decode().lower() != _layout():
        return None
    return native


def _layout() -> str:
    groups: tuple[Iterable[str], ...] = (
        [part.name.lower() for part in Part],
        _Fields._fields,
        Tail._fields[1:],
        _COLUMNS,
    )
    return "/ ".join("".join(f"{name} " for name in group) for group in groups)


def _steps(columns: np.ndarray, first: int, run: Site, collective: bool) -> UsualSteps:
    if not collective:
        # Nothing was reduced.
        columns[len(PHASES)], columns[len(PHASES) + 1] = UNKNOWN, 0.0
    number, counter = columns.shape[1], run.counter
    count = None
    if counter is not None:
        begin = counter.base + counter.count + 1
        count = range(begin, begin + number)
        counter.count += number
    reduced_bytes, examples = columns[-2:]
    phases, wire_type = columns[1 : 1 + len(PHASES)], run.wire_type if collective else ""
    return UsualSteps(
        first=first,
        end=columns[0],
        phases=phases,
        bytes=reduced_bytes,
        examples=examples,
        global_step=count,
        distribution=run.distribution,
        wire_type=wire_type,
        micro_batches=run.micro_batches,
    )
