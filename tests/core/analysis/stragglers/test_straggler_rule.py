import numpy as np
import pytest
from tfscale.core.analysis.steps.blocks import WINDOW, Blocks
from tfscale.core.analysis.steps.step_table import AlignedSteps
from tfscale.core.analysis.stragglers.straggler_rule import (
    NEWEST,
    Rule,
    ShortHistory,
    change_point,
    judge,
    recovery,
    severity_of,
    short_history,
)


def test_the_change_point_is_where_the_level_rises() -> None:
    values = np.array([0.0, 0.1, -0.1, 0.0, 0.9, 1.1, 1.0])
    assert change_point(values, 1.0) == 4
    assert change_point(values[4:], 1.0) == 0


@pytest.mark.parametrize(("ratio", "severity"), [(1.1, "warning"), (1.34, "serious"), (2.0, "critical")])
def test_severity_follows_the_ratio(ratio: float, severity: str) -> None:
    assert severity_of(ratio) == severity


@pytest.mark.parametrize("slow_for", range(1, 14))
def test_a_straggler_however_short_can_be_asked_for_its_end(slow_for: int) -> None:
    """A window decides where its blocks are too few to know their noise."""
    random = np.random.default_rng(slow_for)
    lag = 0.1 * np.exp(0.02 * random.normal(size=(38 + slow_for, 4)))
    lag[30 : 30 + slow_for, 2] *= 1.6
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, 0.3 - lag]).astype(np.float32)
    blocks = Blocks(("a", "b", "c", "d"), 0.3 * WINDOW)
    blocks.fold(AlignedSteps(blocks.subjects, np.arange(len(lag)), 0.3 * np.arange(1.0, len(lag) + 1), phases))
    ended = recovery(blocks, 2, 0.3 * 30, WINDOW, Rule())
    if slow_for >= NEWEST and ended is not None:
        assert ended == pytest.approx(0.3 * (30 + slow_for), abs=0.61)


@pytest.mark.parametrize(("step", "fewest"), [(0.002, 20), (0.1, 20), (0.45, 15), (5.0, 10)])
def test_a_history_is_too_short_until_the_first_moment_at_which_somebody_can_be_named(step: float, fewest: int) -> None:
    blocks, seconds = Blocks(("a", "b", "c", "d"), Rule().seconds), max(Rule().seconds / WINDOW, step)
    assert short_history(None) == short_history(blocks) == ShortHistory(0.0, None)
    rows = int(seconds / step * (fewest + 2))
    lag = 0.9 * step * np.exp(0.02 * np.random.default_rng(1).normal(size=(rows, 4)))
    lag[:, 2] *= 4
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, step - lag]).astype(np.float32)
    end = step * np.arange(1.0, rows + 1)
    for row in range(rows):
        blocks.fold(AlignedSteps(blocks.subjects, np.arange(row + 1), end[: row + 1], phases[:, : row + 1]))
        short = short_history(blocks)
        is_named = len(blocks) > 0 and bool(judge(blocks, Rule()))
        assert (short is None) == is_named == (len(blocks) >= fewest)
        if short is not None and len(blocks):
            assert short.seconds == pytest.approx(len(blocks) * seconds, abs=seconds)
            assert short.steps == (len(blocks) if step > Rule().seconds / WINDOW else None)
