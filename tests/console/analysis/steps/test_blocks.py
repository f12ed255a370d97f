"""Blocks: steps condensed into stretches of time, each read once."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import KEEP, WINDOW, Blocks, RowHistory


def steps(count: int, *lags: float, seconds: float = 0.1) -> AlignedSteps:
    """Return `count` steps of `seconds`, in which each subject computes for its lag and reduces for the rest."""
    lag = np.tile(lags, (count, 1))
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, seconds - lag]).astype(np.float32)
    subjects = tuple(f"worker:{column}" for column in range(len(lags)))
    return AlignedSteps(subjects, np.arange(count), seconds * (np.arange(count) + 1.0), phases)


def folded(aligned: AlignedSteps, block_seconds: float) -> Blocks:
    blocks = Blocks(aligned.subjects, block_seconds * WINDOW)
    blocks.append(aligned)
    return blocks


def test_a_block_has_the_medians_of_its_steps_and_the_open_one_does_not_count() -> None:
    blocks = folded(steps(35, 0.02, 0.04, 0.02), block_seconds=1.0)
    assert (len(blocks), blocks.consumed) == (3, 29)
    assert blocks.lag[-1] == pytest.approx([0.02, 0.04, 0.02])
    assert blocks.level[-1] == pytest.approx(np.log([2 / 3, 2.0, 2 / 3]), abs=1e-6)
    assert blocks.step[-1] == pytest.approx(0.1)
    assert blocks.spread[-1] == pytest.approx(0.2)
    assert blocks.part(1) == pytest.approx(0.4)
    assert blocks.begin(1) == pytest.approx(blocks.end[0])


def test_steps_that_arrive_in_parts_make_the_same_blocks() -> None:
    aligned = steps(200, 0.02, 0.04)
    at_once, in_parts = folded(aligned, 1.0), Blocks(aligned.subjects, 1.0 * WINDOW)
    for stop in range(7, 201, 7):
        in_parts.append(
            AlignedSteps(
                aligned.subjects, *(part[:stop] for part in (aligned.sequence, aligned.end)), aligned.phases[:, :stop]
            )
        )
    count = len(in_parts)
    assert count >= len(at_once) - 1
    assert in_parts.end == pytest.approx(at_once.end[:count])


def test_a_step_longer_than_a_block_is_a_block() -> None:
    blocks = folded(steps(5, 0.5, 0.5, seconds=3.0), block_seconds=1.0)
    assert len(blocks) >= 4
    assert blocks.stretch == pytest.approx(3.0)


def test_an_unknown_step_carries_the_level_of_the_block_before_it_forward() -> None:
    aligned = steps(40, 0.02, 0.04, 0.02)
    aligned.phases[:, 10:30, 1] = np.nan
    assert folded(aligned, 1.0).level[:, 1] == pytest.approx([np.log(2.0)] * 3, abs=1e-6)


def test_subjects_are_forgotten_and_the_others_keep_their_history() -> None:
    blocks = folded(steps(40, 0.02, 0.04, 0.03), 1.0)
    blocks.forget({"worker:1"})
    assert blocks.subjects == ("worker:0", "worker:2")
    assert blocks.lag[-1] == pytest.approx([0.02, 0.03])


def test_a_history_keeps_the_newest_rows() -> None:
    history = RowHistory(2, most=5)
    for first in range(0, 3 * KEEP, 7):
        history.append(np.arange(first, first + 7, dtype=float)[:, None] * [1, 2])
    last = first + 6
    assert history.rows[:, 0].tolist() == [last - 4, last - 3, last - 2, last - 1, last]
