"""Numbers and names as people read them."""

from __future__ import annotations

import math

import pytest
from tfscale.core.text import clock


@pytest.mark.parametrize("at", [math.nan, math.inf, 1e300])
def test_what_is_no_moment_has_no_time_of_day(at: float) -> None:
    assert clock(at) == "--:--:--"
