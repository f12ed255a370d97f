"""Both places where rows wait, and a loop that writes some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def area() -> Iterator[Any]:
    from tfscale.trainer.probe.rows.staging_area import StagingArea

    area = StagingArea("of this test")
    area.clear()
    yield area
    area.clear()


@pytest.fixture(params=["ring", "area"])
def buffer(request: pytest.FixtureRequest) -> Any:
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    return RowBuffer([], request.getfixturevalue(request.param))


@pytest.fixture
def steps(buffer: Any) -> Callable[[int], None]:
    return _looped(buffer)


@pytest.fixture
def looped() -> Callable[[Any], Callable[[int], None]]:
    return _looped


def _looped(buffer: Any) -> Callable[[int], None]:
    """Run so many steps of a loop inside a graph, each a collective that is entered and a row."""
    import tensorflow as tf

    @tf.function
    def loop(number: Any) -> None:
        for _ in tf.range(number):
            stamp = buffer.stamp([], enters=True)
            buffer.write(3, [stamp, buffer.stamp([stamp])])

    def run(number: int) -> None:
        loop(tf.constant(number))

    return run
