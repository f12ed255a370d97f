"""Shares of a batch by speed."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("examples", "speeds", "shares"),
    [
        (128, [1.0, 1.0], [64, 64]),
        (256, [900.0, 450.0], [170, 86]),
        (10, [1.0, 1.0, 1.0], [4, 3, 3]),
        (3, [1000.0, 1.0, 1.0], [1, 1, 1]),
        (100, [1000.0, 0.001], [99, 1]),
    ],
)
def test_all_examples_are_shared_by_speed_and_each_worker_has_one(
    examples: int, speeds: list[float], shares: list[int]
) -> None:
    from tfscale.trainer.programs.standalone.batch_by_speed import share_out

    assert share_out(examples, speeds) == shares
