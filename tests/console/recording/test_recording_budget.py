"""Bound of a recording's size, and the count of the steps that it leaves out."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.engine.events import (
    FrameArrived,
    SecondPassed,
)
from tfscale.console.recording.recording_budget import RUN, WEEK, WEEKLY, WHOLE, RecordingBudget, thinned


def test_thinning_keeps_the_same_steps_of_all_and_counts_what_it_left_out() -> None:
    task = fakes.worker(0)
    frame = replace(fakes.frame(task), steps=(fakes.steps(task, first=0, count=8 * RUN),))
    event = FrameArrived(fakes.NOW, task, frame, lambda: b"")
    kept = thinned(event, 4)
    assert isinstance(kept, FrameArrived) and kept.message is None
    (batch,) = kept.frame.steps
    assert list(batch.sequence) == [*range(RUN), *range(4 * RUN, 5 * RUN)]
    assert len(batch.end) == len(batch.compute) == len(batch.global_step) == 2 * RUN
    assert batch.lost == 6 * RUN
    assert thinned(SecondPassed(1.0), 4) == SecondPassed(1.0)


def test_a_week_stays_within_its_bound() -> None:
    allowance, written = RecordingBudget(0.0, 64), 0
    for minute in range(int(WEEK / 60)):
        at = 60.0 * minute
        # 64 tasks at 100 steps a second, as they compress: 2 KB of steps and 50 bytes besides.
        written += 64 * 60 * (50 + 2000 // allowance.share(written, at))
    assert WHOLE < written < 1.02 * WEEKLY
