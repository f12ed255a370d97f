import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.stragglers.straggler_rule import (
    NEWEST,
    Rule,
    ShortHistory,
    change_point,
    judge,
    recovery,
    severity_of,
    short_history,
    suspect,
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
    blocks.append(AlignedSteps(blocks.subjects, np.arange(len(lag)), 0.3 * np.arange(1.0, len(lag) + 1), phases))
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
        blocks.append(AlignedSteps(blocks.subjects, np.arange(row + 1), end[: row + 1], phases[:, : row + 1]))
        short = short_history(blocks)
        is_named = len(blocks) > 0 and bool(judge(blocks, Rule()))
        assert (short is None) == is_named == (len(blocks) >= fewest)
        if short is not None and len(blocks):
            assert short.seconds == pytest.approx(len(blocks) * seconds, abs=seconds)
            assert short.steps == (len(blocks) if step > Rule().seconds / WINDOW else None)


def blocks_of(lag: np.ndarray, step: float = 0.3) -> Blocks:
    """Return blocks of a step each, of (k, n) lags in seconds."""
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, lag.max(axis=1, keepdims=True) - lag + 0.02])
    blocks = Blocks(tuple("abcdefgh"[: lag.shape[1]]), step * WINDOW)
    end = step * np.arange(1.0, len(lag) + 1)
    blocks.append(AlignedSteps(blocks.subjects, np.arange(len(lag)), end, phases.astype(np.float32)))
    return blocks


def noisy(rows: int, variation: float = 0.03) -> np.ndarray:
    return 0.1 * np.exp(variation * np.random.default_rng(4).normal(size=(rows, 6)))


def test_a_suspect_looks_slow_before_the_rule_can_name_it_and_is_none_at_once_when_it_no_longer_does() -> None:
    lag = noisy(400)
    lag[300:314, 2] *= 1.4
    suspects = {row: suspect(blocks_of(lag[: row + 1]), Rule()) for row in range(299, 330)}
    first = min(row for row, found in suspects.items() if found)
    assert 309 <= first <= 313, "after 3 s, here 10 blocks"
    assert {found.column for found in suspects.values() if found} == {2}
    assert suspects[first].begin == pytest.approx(0.3 * 300, abs=0.61)  # type: ignore[union-attr]
    assert not any(judge(blocks_of(lag[: row + 1]), Rule()) for row in suspects), "it passes before it is named"
    assert not any(found for row, found in suspects.items() if row >= 318)


@pytest.mark.parametrize(("others", "shown"), [({2: 1.4}, True), ({2: 1.4, 4: 1.4}, False), ({2: 1.04}, False)])
def test_the_evidence_has_to_point_to_one_that_is_worth_a_repair(others: dict[int, float], shown: bool) -> None:
    lag = noisy(315)
    for column, ratio in others.items():
        lag[300:, column] *= ratio
    assert (suspect(blocks_of(lag), Rule()) is not None) == shown


def test_of_a_short_history_only_who_is_far_slower_is_suspected() -> None:
    lag = noisy(16)
    for ratio, shown in ((1.5, False), (3.0, True)):
        slow = lag * np.where(np.arange(6) == 2, ratio, 1.0)
        assert (suspect(blocks_of(slow), Rule()) is not None) == shown


def test_what_passed_by_itself_for_as_long_before_makes_nobody_a_suspect() -> None:
    lag = noisy(400)
    lag[200:216, 4] *= 1.5
    lag[380:394, 2] *= 1.5
    assert suspect(blocks_of(lag[:395]), Rule()) is None
    lag[380:, 2] = noisy(400)[380:, 2] * 1.5
    assert suspect(blocks_of(lag), Rule()) is not None
