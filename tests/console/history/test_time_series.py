"""Numbers of tasks by the second, coarser as they grow old."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.history.time_series import BLOCK, Resolution, SeriesStore


def put(store: SeriesStore, second: int, values: list[float], newest: float) -> None:
    """Put one value of each task into column 0."""
    for slots in store.slots(np.full(len(values), second), newest):
        slots.block[0, np.arange(len(values))[slots.chosen], slots.slot] = np.array(values)[slots.chosen]


def test_what_was_put_is_read_by_task_and_second_over_the_edges_of_blocks() -> None:
    store = SeriesStore(1, 2, Resolution(), 600)
    for second in range(BLOCK - 2, BLOCK + 2):
        put(store, second, [second, 2 * second], second)
    assert store.read(1, BLOCK + 1, 2)[0].tolist() == [2 * BLOCK - 2, 2 * BLOCK]
    assert store.read(slice(None), BLOCK + 3, 2)[0] == pytest.approx(
        np.array([[BLOCK + 1, np.nan], [2 * BLOCK + 2, np.nan]]), nan_ok=True
    )


def test_older_slots_become_means_of_what_is_known_or_the_largest() -> None:
    mean, largest = SeriesStore(1, 1, Resolution(1, 6), 600), SeriesStore(1, 1, Resolution(1, 6), 600, largest=[0])
    for store in (mean, largest):
        for second, value in enumerate([1.0, 5.0, 3.0]):
            put(store, second, [value], second)
        store.forget(4 * BLOCK)
    assert mean.read(0, 6, 6)[0].tolist() == [3.0] * 6
    assert largest.read(0, 6, 6)[0].tolist() == [5.0] * 6
    assert [slots.weight for slots in mean.slots(np.array([3]), 4 * BLOCK)] == [1 / 6]


def test_what_is_too_old_or_in_the_future_has_no_slot() -> None:
    store = SeriesStore(1, 1, Resolution(), 2 * BLOCK)
    put(store, 0, [1.0], 0)
    assert not list(store.slots(np.array([0, 20 * BLOCK]), 10 * BLOCK))
    store.forget(10 * BLOCK)
    assert np.isnan(store.read(0, 1, 1)).all()
