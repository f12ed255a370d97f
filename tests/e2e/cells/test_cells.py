"""Strategy x loop x Keras version, with real TensorFlow: each delay in its own phase (scripts/docs/cells.py)."""

from __future__ import annotations

import functools

import net_hosts
import pytest

from cells.cell_group import Group, run_group
from cells.cell_judge import judged
from cells.cell_matrix import ABSENT, KERAS, LOOPS, STRATEGIES, loops

pytestmark = pytest.mark.alone


@functools.cache
def group(strategy: str, keras: str, chosen: tuple[str, ...]) -> Group:
    """Train all loops in one process group, so that each is also one of several models in a process."""
    return run_group(strategy, KERAS[keras], chosen)


def assert_true(strategy: str, loop: str, keras: str, chosen: tuple[str, ...]) -> None:
    if reason := ABSENT.get((strategy, loop, keras)):
        pytest.skip(reason)
    verdict = judged(group(strategy, keras, chosen), loop)
    assert not verdict.problems, "\n".join(verdict.problems)
    if strategy.startswith("multi_worker") and not net_hosts.missing():
        assert "wire" in verdict.shown


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("strategy", "loop", "keras"),
    [
        ("multi_worker", "fit", "keras 3"),
        pytest.param("mirrored", "custom", "tf_keras", marks=pytest.mark.matrix),
    ],
)
def test_a_few_cells(strategy: str, loop: str, keras: str) -> None:
    assert_true(strategy, loop, keras, (loop,))


OFTEN = ("fit", "custom")
"""Loops that are measured with the long tests; the others take half an hour, and are the matrix."""
CHOSEN = ("mirrored", "multi_worker")
"""Strategies of which these are: one device is in the tests of every day.

The others are in the matrix, too, one of them with four replicas on two cores, whose steps differ by more than the
tolerance.
"""
CELLS = [
    pytest.param(
        strategy,
        keras,
        loop,
        marks=pytest.mark.slow
        if loop in OFTEN and keras == often and strategy in CHOSEN
        else pytest.mark.matrix(group=f"cells {strategy} {keras} {loop in OFTEN}"),
    )
    for place, strategy in enumerate(STRATEGIES)
    # One Keras of each strategy, and the other of the next.
    for often in [list(KERAS)[place % 2]]
    for keras in KERAS
    for loop in LOOPS
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("strategy", "keras", "loop"), CELLS)
def test_every_cell(strategy: str, keras: str, loop: str) -> None:
    there = loops(strategy, keras)
    assert_true(strategy, loop, keras, tuple(each for each in there if (each in OFTEN) == (loop in OFTEN)))
