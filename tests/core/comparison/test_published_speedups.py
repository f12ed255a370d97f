"""Published speedups, and Amdahl's contention."""

import pytest
from tfscale.core.comparison.published_speedups import PUBLISHED, contention, nearest_published
from tfscale.core.comparison.size_forecast import efficiency


@pytest.mark.parametrize(
    ("name", "workers", "speedup", "share", "lasting"),
    [
        ("NMT", 8, 6, 0.75, 0.0476),
        ("Inception on ImageNet", 50, 32, 0.64, 0.0115),
        ("RankBrain, sparse", 500, 300, 0.6, 0.00134),
    ],
)
def test_published_points(name: str, workers: int, speedup: float, share: float, lasting: float) -> None:
    point = next(each for each in PUBLISHED if each.name == name)
    assert (point.workers, point.low, point.high) == (workers, speedup, speedup)
    assert efficiency(workers, speedup * 7.0, 7.0) == pytest.approx(share)
    assert contention(workers, speedup) == pytest.approx(lasting, rel=0.005)
    assert nearest_published(workers).workers == workers


def test_the_published_dense_range_holds_the_published_inception() -> None:
    dense = next(each for each in PUBLISHED if each.name == "dense models")
    inception = next(each for each in PUBLISHED if each.name.startswith("Inception"))
    assert dense.low <= inception.low <= dense.high


def test_contention_is_that_of_amdahls_law() -> None:
    for workers in (2, 8, 50):
        assert contention(workers, workers / (1 + 0.02 * (workers - 1))) == pytest.approx(0.02)
    assert contention(4, 4) == 0 and contention(4, 5) < 0
