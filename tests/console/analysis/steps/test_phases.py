import numpy as np
import pytest
from tfscale.console.analysis.steps.phases import (
    medians,
    others_median,
    transfer,
    waits,
    with_medians_for_unknown,
)

REDUCE = np.array([[0.100, 0.039], [0.099, 0.040]])


def test_the_network_costs_what_the_last_to_enter_spends_in_the_collective() -> None:
    assert transfer(REDUCE) == pytest.approx([0.039, 0.040])
    assert waits(REDUCE) == pytest.approx(np.array([[0.061, 0.0], [0.059, 0.0]]))


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8, 9])
def test_the_median_of_the_others_leaves_the_own_value_out(workers: int) -> None:
    values = np.random.default_rng(workers).integers(0, 6, size=(40, workers)).astype(float)
    expected = np.stack([np.median(np.delete(values, column, axis=1), axis=1) for column in range(workers)], axis=1)
    assert np.array_equal(others_median(values), expected)


def test_medians_are_of_what_is_known() -> None:
    nan = float("nan")
    values = np.array([[1.0, nan, nan, 4.0], [3.0, nan, 2.0, 1.0], [2.0, nan, 4.0, nan]])
    assert np.array_equal(medians(values), [2.0, nan, 3.0, 2.5], equal_nan=True)
    assert np.array_equal(with_medians_for_unknown(values), [[1, 2.5, 2.5, 4], [3, 2, 2, 1], [2, 3, 4, 3]])
    assert np.array_equal(transfer(values), [1.0, 1.0, 2.0])
