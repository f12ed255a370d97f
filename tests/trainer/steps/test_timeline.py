"""Walk along the edges of a step."""

from __future__ import annotations

import math

import pytest
from tfscale.trainer.probe.steps.timeline import COMPUTE, HOST, INPUT, UNKNOWN, Timeline, overlap, union


def test_waits_and_pauses_are_part_of_no_phase() -> None:
    line = Timeline(100.0, waits=[(101.0, 102.0)], pauses=[(103.0, 103.5)])
    line.go(HOST, 104.0)
    assert line.phases[HOST] == pytest.approx(2.5)
    assert line.waited == pytest.approx(1.0)
    assert line.legs == [(HOST, 100.0, 104.0, pytest.approx(2.5))]


def test_an_unknown_edge_leaves_both_its_sides_unknown() -> None:
    line = Timeline(100.0, [], [])
    line.go(HOST, UNKNOWN)
    line.go(INPUT, 101.0)
    line.go(COMPUTE, 103.0)
    assert math.isnan(line.phases[HOST]) and math.isnan(line.phases[INPUT])
    assert line.phases[COMPUTE] == 2.0 and line.at == 103.0


def test_an_edge_before_the_last_one_is_moved() -> None:
    line = Timeline(100.0, [], [])
    line.go(HOST, 102.0)
    line.go(INPUT, 101.0)
    assert line.clamped and line.phases[INPUT] == 0.0 and line.at == 102.0


def test_intervals_that_overlap_are_joined() -> None:
    assert union([(3.0, 4.0), (0.0, 2.0), (1.0, 2.5)]) == [(0.0, 2.5), (3.0, 4.0)]
    assert overlap([(0.0, 2.5), (3.0, 4.0)], 2.0, 3.5) == 1.0
    assert overlap([(0.0, 1.0)], UNKNOWN, 1.0) == 0.0
