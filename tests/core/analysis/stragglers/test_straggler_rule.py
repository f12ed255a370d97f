import numpy as np
import pytest
from tfscale.core.analysis.steps.blocks import WINDOW, Blocks
from tfscale.core.analysis.steps.step_table import AlignedSteps
from tfscale.core.analysis.stragglers.straggler_rule import NEWEST, Rule, change_point, recovery, severity_of


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
