"""A pipeline computes what one device does, with the bubble of the formula and the memory of its schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tfscale.core.errors import UsageError

KERAS = [
    pytest.param({}, id="keras3"),
    pytest.param({"TF_USE_LEGACY_KERAS": "1"}, id="tf_keras", marks=pytest.mark.matrix),
]


def agrees(said: dict[str, Any], stages: int) -> None:
    """Loss and gradients are those of one device. Raises AssertionError."""
    assert said["loss"][0] == pytest.approx(said["loss"][1], rel=1e-5)
    assert said["difference"] < 1e-5, "relative to the largest element of each gradient"
    assert said["gradients on"] == [[f"CPU:{stage}"] for stage in range(stages)]
    assert said["left"] == [0] * stages, "activations are held after the step"


@pytest.mark.tensorflow
@pytest.mark.parametrize("keras", KERAS)
def test_its_gradients_are_those_of_one_device(check: Callable[..., Any], keras: dict[str, str]) -> None:
    (said,) = check("pipeline_gradients", "2:4:1f1b:0", **keras)
    agrees(said, 2)
    assert said["held"] == [2, 1]


@pytest.mark.tensorflow
@pytest.mark.slow
def test_gradients_do_not_depend_on_the_schedule(check: Callable[..., Any]) -> None:
    sizes = [(1, 4), (2, 1), (2, 8), (4, 2), (4, 8)]
    cases = [(*size, schedule, again) for size in sizes for schedule in ("gpipe", "1f1b") for again in (0, 1)]
    all_said = check("pipeline_gradients", *(":".join(map(str, case)) for case in cases))
    for (stages, micro_batches, schedule, _), said in zip(cases, all_said, strict=True):
        agrees(said, stages)
        deepest = [min(stages - stage, micro_batches) for stage in range(stages)]
        assert said["held"] == ([micro_batches] * stages if schedule == "gpipe" else deepest)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--batch 100 --micro-batches 8", "--batch 100: not divisible by --micro-batches 8"),
        ("--layers 3", "--layers 3: not divisible by --stages 2"),
        ("--steps 2", "--steps 2: at least 3, since the first 2 are not timed"),
    ],
)
def test_what_cannot_run_is_refused(words: str, line: str) -> None:
    from tfscale.trainer.programs.standalone.pipeline import parse

    with pytest.raises(UsageError) as raised:
        parse(words.split())
    assert str(raised.value) == line


@pytest.mark.tensorflow
def test_gpipe_holds_every_micro_batch_and_1f1b_as_many_as_there_are_stages(check: Callable[..., Any]) -> None:
    """By the bytes that TensorFlow counts in all devices together."""
    said = check("pipeline_memory")
    (lower, upper), gpipe, alternating = said["held"], said["gpipe"], said["1f1b"]
    # Relu's output of each layer, 4096 x 256 x 4 bytes: three layers are below, two and the classifier above.
    assert [lower, upper] == pytest.approx([3 * 4096 * 256 * 4, 2 * 4096 * 256 * 4], rel=0.05)
    assert (gpipe["8"] - gpipe["2"]) / 6 == pytest.approx(lower + upper, rel=0.05)
    # Two below and one above, and beside them what passes need while they run.
    passing = gpipe["2"] - 2 * (lower + upper)
    assert max(alternating.values()) < 2 * lower + upper + 3 * passing
    assert alternating["8"] < 0.5 * gpipe["8"]


@pytest.mark.tensorflow
@pytest.mark.matrix
def test_bubbles_are_those_of_the_formula_and_two_cores_are_half_as_fast_again_as_one(
    check: Callable[..., Any],
) -> None:
    # Micro-batches of 2048 examples: smaller ones keep a core less busy.
    found = check("pipeline_times", "--batch", "16384")
    if min(each["own"] for each in found) < 3:
        pytest.skip(f"others have taken the cores all the time: {found}")
    single, *pipelines = found
    for each in pipelines:
        assert each["bubble"] == pytest.approx(1 / (each["micro_batches"] + 1), abs=0.05), found
    for each in pipelines[-2:]:
        assert single["seconds"] / each["seconds"] >= 1.5, found
