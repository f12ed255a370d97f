"""The short way of usual steps: the C library makes the message that tells them, and nobody looks at a step."""

from __future__ import annotations

import ctypes
import math
import os

import numpy as np
from tfscale.core.moments import PERIOD, READ
from tfscale.core.wire.framing import AT_ONCE, HEADER_BYTES
from tfscale.trainer.probe.clock import NARROW, TOLERANCE, ClockWatch
from tfscale.trainer.probe.fold import Fold
from tfscale.trainer.probe.native import Course, Round, library
from tfscale.trainer.probe.plain import UsualRow
from tfscale.trainer.probe.report import Collective, Messages
from tfscale.trainer.probe.row import NO_ROWS
from tfscale.trainer.probe.staging import Staging
from tfscale.trainer.probe.steps import IDLE_SECONDS, REMEMBERED, StepAssembler, Tail

_LONGEST_REST = 15
"""Reads."""


class Express:
    """Goes on from where the long way was, and gives back how far it came.

    Code that runs once a second has left the processor's caches: of the two ways this one takes less than a third of
    the CPU (docs/spikes/cost.md).
    """

    def __init__(self, fold: Fold, assembler: StepAssembler) -> None:
        self._fold = fold
        self._assembler = assembler
        self._library = library()
        self._told = ctypes.c_void_p()
        self._course = Course()
        self._early = NO_ROWS
        """Rows that the long way had taken and not told."""
        self._usual: UsualRow | None = None
        self._staging: Staging
        self._messages: Messages
        self._entered = 0
        """Collectives, when it began."""
        self._is_riding = False
        self._is_long = False
        """Whether the newest message was, for one that is sent at once."""
        self._rest = self._left_of_rest = 0
        """Reads in which it is not tried, after those in which it told nothing: 1, 3, 7, 15."""

    @property
    def is_on(self) -> bool:
        return self._usual is not None

    def begin(self, staging: Staging, messages: Messages, collective: Collective) -> None:
        """Go on, if the newest rows are of usual steps and nothing is left but such."""
        usual, tail = self._fold.usual, self._assembler.tail
        if self._library is None or not staging.in_ring or usual is None or tail is None:
            return
        if self._left_of_rest:
            self._left_of_rest -= 1
            return
        self._staging, self._messages = staging, messages
        collectives = int(usual.gradients.collective)
        counter = usual.run.counter
        self._early = np.ascontiguousarray(self._fold.take_rows())
        self._course = Course(
            kind=usual.kind,
            moments=usual.moments,
            examples_place=usual.examples or 0,
            bytes_place=usual.bytes or 0,
            collectives=collectives,
            counts=counter is not None,
            idle=IDLE_SECONDS,
            head=messages.head,
            head_length=len(messages.head),
            sequence=tail.sequence,
            iteration=0 if counter is None else counter.base + counter.count + 1,
            exit=tail.exit,
            updated=tail.updated,
            reduced=tail.reduced,
            entered=collective.entered,
            left=collective.left - collectives * len(self._early),
            entered_at=math.nan if collective.entered_at is None else collective.entered_at,
        )
        self._entered = collective.entered
        self._usual = usual

    def go(self, horizon: float) -> bool:
        """Tell the steps that were over by then. False where there is something else to see: then nothing was done."""
        assert self._library is not None
        length: int = self._library.tfscale_steps(self._course, *self._rows_to_tell(), horizon, self._told)
        if length:
            self._is_long = HEADER_BYTES + length > AT_ONCE
            self._messages.tell(ctypes.string_at(self._told, length))
        return bool(length)

    def _rows_to_tell(self) -> tuple[int, int]:
        """Where the early ones lie, and how many."""
        early = self._untold
        return early.ctypes.data, len(early)

    @property
    def _untold(self) -> np.ndarray:
        """The early rows, until they have been told."""
        return NO_ROWS if self._course.steps else self._early

    def mount(self) -> bool:
        """Have `ride` begin, unless somebody calls for a halt before. False where it cannot."""
        if self._library is None or not self.is_on or self._is_long:
            return False
        self._is_riding = True
        self._library.tfscale_mount()
        return True

    def ride(self, clock: ClockWatch, settling: float) -> bool:
        """Stay in the library, and tell the steps of each read, as long as there is nothing else to see, and after
        `mount`; `settling` seconds after a step was over it is told. False where whoever called for a halt did not want
        to wait for the next moment at which to read, which else has come."""
        assert self._library is not None
        agent = self._messages.lend(self.halt)
        if agent is None:
            self.halt()
            return False
        offset = ctypes.pointer(clock.offset)
        round_ = Round(PERIOD, READ, settling, offset, TOLERANCE, NARROW, AT_ONCE)
        try:
            return bool(self._library.tfscale_ride(self._course, round_, *self._rows_to_tell(), agent))
        finally:
            self._is_riding = False
            os.close(agent)

    def halt(self, now: bool = False) -> None:
        """Have `ride` do nothing more when this returns. It ends at the next moment at which to read, or `now`."""
        if self._library is not None and (self._is_riding or now):
            self._library.tfscale_halt(now)
            self._is_riding = False

    @property
    def collective(self) -> Collective:
        """As it was told."""
        return self._after(self._course.waiting)

    def _after(self, more: int) -> Collective:
        """When so many more were left."""
        course = self._course
        entered_at = None if math.isnan(course.entered_at) else course.entered_at
        return Collective(course.entered, course.left + more, entered_at)

    @property
    def amounts(self) -> tuple[int, float]:
        """Bytes of the newest step, and examples of the largest batch of the newest read."""
        assert self._usual is not None
        input_, gradients = self._usual.input, self._usual.gradients
        more = round(self._course.newest_bytes)
        return (gradients.bytes + more) * gradients.collective, input_.examples + self._course.most_examples

    def end(self) -> Collective:
        """Leave it to the long way from here on, to which the rows that wait in the ring are new."""
        usual, course = self._usual, self._course
        assert usual is not None
        self._usual = None
        self._rest = 0 if course.steps else min(2 * self._rest + 1, _LONGEST_REST)
        self._left_of_rest = self._rest
        if usual.run.counter is not None:
            usual.run.counter.count += course.steps
        if course.steps:
            remembered = range(max(0, course.steps - REMEMBERED), course.steps)
            self._assembler.remember([course.lasted[step % REMEMBERED] for step in remembered])
            tail = Tail(course.sequence, course.exit, course.updated, course.reduced)
            most = (usual.gradients.bytes + round(course.most_bytes)) * usual.gradients.collective
            self._assembler.go_on(tail, most)
        self._staging.entered += course.entered - self._entered
        early = self._untold
        self._fold.give_back(early)
        return self._after(len(early) * course.collectives)
