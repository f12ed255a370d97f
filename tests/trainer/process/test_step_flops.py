"""Floating-point operations of a step, beside those that were calculated by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow")
import tensorflow as tf
from tfscale.trainer.probe.process.step_flops import FlopsReader, StepFlops, StepGraph

pytestmark = pytest.mark.tensorflow
BATCH = 32


def dense_step() -> tuple[Callable[..., Any], int]:
    """Return a step of two dense layers, and the products of its matrices by hand: 6 N x batch, but one."""
    first, second = (tf.Variable(tf.random.normal(shape, seed=1)) for shape in ((100, 256), (256, 10)))

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, first)), second) - y))
        for variable, gradient in zip((first, second), tape.gradient(loss, (first, second)), strict=True):
            variable.assign_sub(0.1 * gradient)

    # The first layer needs no gradient of its input.
    return step, 6 * BATCH * (100 * 256 + 256 * 10) - 2 * BATCH * 100 * 256


def convolution_step() -> tuple[Callable[..., Any], int]:
    first, second = (tf.Variable(tf.random.normal(shape, seed=1)) for shape in ((3, 3, 3, 32), (3, 3, 32, 64)))

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            inner = tf.nn.relu(tf.nn.conv2d(tf.reshape(x, (-1, 32, 32, 3)), first, 1, "SAME"))
            loss = tf.reduce_mean(tf.nn.conv2d(inner, second, 2, "SAME")) - tf.reduce_mean(y)
        for variable, gradient in zip((first, second), tape.gradient(loss, (first, second)), strict=True):
            variable.assign_sub(0.1 * gradient)

    one, other = 2 * 32 * 32 * 9 * 3 * 32, 2 * 16 * 16 * 9 * 32 * 64
    return step, BATCH * (2 * one + 3 * other)


@pytest.mark.parametrize(("make", "width"), [(dense_step, 100), (convolution_step, 3072)])
@pytest.mark.parametrize("size", [None, BATCH])
def test_forward_and_backward_are_counted_also_of_a_batch_of_open_size(
    make: Callable[[], Any], width: int, size: int | None
) -> None:
    step, by_hand = make()
    traced = tf.function(step).get_concrete_function(tf.TensorSpec((size, width)), tf.TensorSpec((size, 10)))
    found = StepGraph("step", traced.graph).flops(BATCH)
    assert found is not None and found.uncounted == ()
    # What is not a product or a convolution comes on top.
    assert by_hand < found.counted < 1.08 * by_hand


def test_functions_inside_count_and_a_branch_that_may_not_run_does_not() -> None:
    weights = tf.Variable(tf.ones((64, 64)))

    @tf.function
    def inner(x: Any) -> Any:
        return tf.einsum("bsd,de->bse", x, weights)

    def step(x: Any) -> Any:
        return tf.cond(
            tf.reduce_sum(x) > 0, lambda: tf.matmul(inner(x), inner(x), transpose_b=True), lambda: x[..., :8]
        )

    def plain(x: Any) -> Any:
        return tf.matmul(inner(x), inner(x), transpose_b=True)

    spec, products = tf.TensorSpec((None, 8, 64)), BATCH * 2 * (2 * 8 * 64 * 64 + 8 * 8 * 64)
    counted = StepGraph("plain", tf.function(plain).get_concrete_function(spec).graph).flops(BATCH)
    assert counted is not None and counted.counted == products
    branched = StepGraph("step", tf.function(step).get_concrete_function(spec).graph).flops(BATCH)
    assert branched is None


def test_what_tensorflow_does_not_count_is_named() -> None:
    def step(x: Any) -> Any:
        return tf.nn.conv3d_transpose(x, tf.ones((1, 1, 1, 4, 4)), (2, 4, 4, 4, 4), 1) + 1.0

    traced = tf.function(step).get_concrete_function(tf.TensorSpec((2, 4, 4, 4, 4)))
    found = StepGraph("step", traced.graph).flops(2)
    assert found == StepFlops(2 * 4**4, ("Conv3DBackpropInputV2",))


def test_a_graph_that_only_applies_gradients_has_no_number() -> None:
    weights = tf.Variable(tf.ones((100, 10)))
    traced = tf.function(lambda gradient: weights.assign_sub(0.1 * gradient + 0.01 * weights))
    assert StepGraph("update", traced.get_concrete_function(tf.TensorSpec((100, 10))).graph).flops(BATCH) is None


def test_a_small_last_batch_takes_the_place_of_no_whole_one_and_another_step_does() -> None:
    def traced(key: str, size: int) -> Any:
        function = tf.function(lambda x: tf.matmul(x, tf.ones((10, 10))))
        kept.append(function.get_concrete_function(tf.TensorSpec((size, 10))))
        return StepGraph(key, kept[-1].graph)

    kept, reader = list[Any](), FlopsReader()

    def read(graph: Any) -> int | None:
        reader.read(graph, 8)
        if reader._thread is not None:
            reader._thread.join()
        found = reader.read(graph, 8)
        return found.counted if found else None

    assert [read(traced("a", 8)), read(traced("a", 3)), read(traced("b", 3))] == [1600, 1600, 600]
    gone = traced("c", 8)
    kept.clear()
    assert reader.read(None, 8) is None
    del gone


def test_a_fit_reports_the_operations_of_all_its_replicas_and_says_nothing_of_its_own(tmp_path: Path) -> None:
    program, file = Path(__file__).parents[1] / "measured" / "counted_flops.py", tmp_path / "run.jsonl"
    roots = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, program, file], env=os.environ | {"PYTHONPATH": roots}, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "deprecat" not in ran.stderr and "Instructions for updating" not in ran.stderr
    probes = [probe for line in file.read_text().splitlines() if (probe := json.loads(line).get("probe"))]
    by_hand, replicas = 64 * (6 * (100 * 256 + 256 * 10) - 2 * 100 * 256), probes[-1]["local_replicas"]
    assert replicas == 2
    by_hand *= replicas
    assert by_hand < probes[-1]["flops_per_step"] < 1.03 * by_hand
    assert probes[-1]["flops_uncounted"] == []


def test_a_program_that_ends_meanwhile_ends_as_it_would(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "measured/ends_while_counted.py"
    command = [sys.executable, str(program), str(tmp_path / "lines.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
