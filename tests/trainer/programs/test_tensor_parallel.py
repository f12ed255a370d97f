"""A network split over a mesh trains as the same network on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


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
    assert said["on"] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]


@pytest.mark.tensorflow
@pytest.mark.matrix
@pytest.mark.parametrize(("batch_parts", "model_parts"), [("1", "4"), ("4", "1"), ("1", "1")])
def test_the_loss_does_not_depend_on_the_mesh(program: Callable[..., Any], batch_parts: str, model_parts: str) -> None:
    options = ("--steps", "5", "--width", "64")
    mesh = program("tensor-parallel", *options, "--batch-parts", batch_parts, "--model-parts", model_parts)
    assert mesh["loss"] == pytest.approx(program("tensor-parallel", *options)["loss"], rel=1e-5)


@pytest.mark.tensorflow
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("option", "line"),
    [
        (("--batch", "63"), "--batch 63: not divisible by --batch-parts 2"),
        (("--width", "63"), "--width 63: not divisible by --model-parts 2"),
    ],
)
def test_what_does_not_divide_is_refused_in_one_line(
    train: Callable[..., Any], option: tuple[str, str], line: str
) -> None:
    ran = train("tensor-parallel", *option)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == f"tfscale-train: {line}"
