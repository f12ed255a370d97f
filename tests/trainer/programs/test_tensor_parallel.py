"""A network split over a mesh trains as the same network on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tfscale.core.errors import UsageError


@pytest.mark.tensorflow
def test_a_mesh_trains_as_one_device_does(check: Callable[..., Any]) -> None:
    said = check("tensor_parallel")
    assert said["moved"] > 1e-2 and said["fell"] > 0.5, "nothing was trained"
    # After 20 steps; sums over `model` and `batch` add in another order than one device.
    assert said["losses"] < 1e-5
    assert said["weights"] < 1e-5
    assert said["parts"] == {
        "hidden kernel": [[64, 64]] * 4,
        "hidden bias": [[64]] * 4,
        "output kernel": [[64, 10]] * 4,
        "output bias": [[10]] * 4,
    }
    assert said["losses by mesh"] == pytest.approx([0] * 3, abs=1e-5), "one device, 1 x 4 and 4 x 1"
    assert said["on"] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--batch 63", "--batch 63: not divisible by --batch-parts 2"),
        ("--width 63", "--width 63: not divisible by --model-parts 2"),
    ],
)
def test_what_does_not_divide_is_refused(words: str, line: str) -> None:
    from tfscale.trainer.programs.standalone.tensor_parallel import parse

    with pytest.raises(UsageError) as raised:
        parse(words.split())
    assert str(raised.value) == line
