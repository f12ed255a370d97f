"""The halves of `model_parallel` compute on their devices, forward and backward, what one device would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

KERAS = [
    pytest.param({}, id="keras3"),
    pytest.param({"TF_USE_LEGACY_KERAS": "1"}, id="tf_keras", marks=pytest.mark.matrix),
]


@pytest.mark.tensorflow
@pytest.mark.parametrize("keras", KERAS)
def test_each_device_executes_the_multiplications_of_its_half(check: Callable[..., Any], keras: dict[str, str]) -> None:
    said = check("model_parallel", **keras)
    # Forward 1 and 2; backward one for each matrix, and one for each input except the features.
    assert said["multiplications"] == {"0": 1 + 1, "1": 2 + 2 + 2}
    assert said["gradients on"] == [["CPU:0"], ["CPU:1"]]
    # What the program is for: scopes around layers leave the backward pass on the first device.
    assert said["in scopes alone"] == {"0": 1 + 5, "1": 2}

    # Forward and gradients are those of one device; a gradient's difference is relative to its largest element.
    assert said["loss"][0] == pytest.approx(said["loss"][1], rel=1e-5)
    assert said["difference"] < 1e-5

    # Weights and two slots of Adam, and a few bytes of its own.
    assert said["weights"] == [1_607_680, 2_108_426]
    assert [3 * 4 * weights for weights in said["weights"]] == pytest.approx([*said["bytes"].values()], abs=16)


@pytest.mark.tensorflow
def test_each_device_holds_its_half_alone(check: Callable[..., Any]) -> None:
    said = check("model_memory")
    assert said["weights"] == [4 * 1_607_680, 4 * 2_108_426]
    # At its peak a device holds the gradients of its weights, and activations of 64 examples.
    for device, weights, activations in zip(("CPU:0", "CPU:1"), said["weights"], (2048, 2048 + 1024), strict=True):
        assert weights < said["two"][device] < weights + 3 * 4 * 64 * activations
    assert said["one"]["CPU:0"] > sum(said["weights"]) and "CPU:1" not in said["one"]


@pytest.mark.tensorflow
@pytest.mark.matrix
def test_the_program_trains(program: Callable[..., Any]) -> None:
    result = program("model-parallel", "--steps", "30")
    assert result["loss"][0] > 2 and result["loss"][-1] < 0.7
    assert result["weights"] == [1_607_680, 2_108_426]
