"""Models of other sizes, by the ring, from a run of one."""

import pytest
from tfscale.console.analysis.run.scaling import (
    bus_bandwidth,
    ring_forecast,
    rings,
)
from tfscale.core.comparison.ring_volume import volume


def test_the_ring_formula_in_whole_numbers() -> None:
    assert bus_bandwidth(8e6, 2.0, 4) == 6e6
    assert bus_bandwidth(8e6, 1.0, 2) == 8e6


def test_a_run_of_one_size_says_what_the_ring_says_of_others() -> None:
    by_bytes, by_latency = rings(lag=0.1, transfer=0.06, workers=4)
    assert by_bytes.step(4) == pytest.approx(0.16)
    assert by_latency.step(4) == pytest.approx(0.16)
    assert by_bytes.transfer(2) == pytest.approx(0.04)
    assert by_latency.transfer(2) == pytest.approx(0.02)
    told = ring_forecast(0.1, 0.06, 4, 8)
    assert told.high == pytest.approx(8 * 0.1 / 0.17)
    assert told.low == pytest.approx(8 * 0.1 / 0.24)
    assert told.throughput == told.high


def test_an_all_gather_moves_what_each_gives_to_all_others_and_grows_with_them() -> None:
    assert [volume(1.0, ranks, 1.0) for ranks in (2, 4, 8)] == [1.0, 3.0, 7.0]
    assert volume(1.0, 4, 0.5) == pytest.approx((volume(1.0, 4) + volume(1.0, 4, 1.0)) / 2)
    assert bus_bandwidth(8e6, 2.0, 4, 1.0) == 12e6
    reduced, gathered = (ring_forecast(0.1, 0.03, 4, 64, share) for share in (0.0, 1.0))
    assert reduced.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.02 * 2 * 63 / 64))
    assert gathered.throughput == pytest.approx(64 * 0.1 / (0.1 + 0.01 * 63))
