"""Stages hand over results, or what went wrong; without TensorFlow's part of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


class FailingStage:
    """A stage that fails at one forward pass, or at none."""

    def __init__(self, fails_at: int | None = None) -> None:
        self._fails_at = fails_at

    def forward(self, micro_batch: int, features: Any, _labels: Any) -> Any:
        if micro_batch == self._fails_at:
            raise ValueError("the batch is spoilt")
        return features

    def backward(self, _micro_batch: int, gradient: Any) -> Any:
        return gradient


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_stage_that_fails_ends_the_step_of_all(schedule: str, failing: int) -> None:
    from tfscale.trainer.model_parallelism.schedules import SCHEDULES
    from tfscale.trainer.model_parallelism.stages import run_passes

    stages: list[Any] = [FailingStage(2 if index == failing else None) for index in range(3)]
    orders = [SCHEDULES[schedule](stage, 3, 4) for stage in range(3)]
    with ThreadPoolExecutor(3) as pool, pytest.raises(ValueError, match="the batch is spoilt"):
        run_passes(pool, stages, orders, [1.0] * 4, [0] * 4)
