"""Student's t distribution, beside SciPy's."""

from __future__ import annotations

import pytest
from tfscale.core.comparison.student_t import two_sided, within


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 31])
@pytest.mark.parametrize("error", [0.2, 0.05, 0.001])
def test_quantiles_are_those_of_scipy(freedom: int, error: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    t = two_sided(error, freedom)
    assert t == pytest.approx(stats.t.ppf(1 - error / 2, freedom), rel=1e-6)
    assert within(t, freedom) == pytest.approx(1 - error)


def test_a_table_of_the_distribution_has_these() -> None:
    assert two_sided(0.05, 2) == pytest.approx(4.303, abs=5e-4)
    assert two_sided(0.05, 7) == pytest.approx(2.365, abs=5e-4)
