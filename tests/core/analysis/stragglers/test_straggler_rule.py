import numpy as np
import pytest
from tfscale.core.analysis.stragglers.straggler_rule import change_point, severity_of


def test_the_change_point_is_where_the_level_rises() -> None:
    values = np.array([0.0, 0.1, -0.1, 0.0, 0.9, 1.1, 1.0])
    assert change_point(values, 1.0) == 4
    assert change_point(values[4:], 1.0) == 0


@pytest.mark.parametrize(("ratio", "severity"), [(1.1, "warning"), (1.34, "serious"), (2.0, "critical")])
def test_severity_follows_the_ratio(ratio: float, severity: str) -> None:
    assert severity_of(ratio) == severity
