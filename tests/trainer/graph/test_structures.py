"""Ops and structures of a program's graph around its stamps."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def operations(function: Any, *arguments: Any) -> list[Any]:
    return function.get_concrete_function(*arguments).graph.get_operations()


def test_nobody_can_use_a_part_of_a_whole_batch_before_its_stamp() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import after

    @tf.function
    def step(inputs: Any, labels: Any) -> Any:
        stamp = tf.no_op("stamp")
        batch = after(stamp, {"inputs": (inputs,), "labels": labels}, whole=True)
        return tf.math.argmax(batch["inputs"][0]) + labels, batch["labels"] + 1

    arguments = tf.constant([1.0, 3.0, 2.0]), tf.constant(5, tf.int64)
    (held,) = [op for op in operations(step, *arguments) if op.type == "IdentityN"]
    assert [each.name for each in held.control_inputs] == ["stamp"] and len(held.outputs) == 2
    assert [result.numpy().tolist() for result in step(*arguments)] == [6, 6]


@pytest.mark.parametrize("batch", [{"whole": False}, {"whole": True, "alone": True}], ids=str)
def test_else_the_first_component_waits_for_the_stamp(batch: dict[str, bool]) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import after

    @tf.function
    def step(inputs: Any, labels: Any) -> Any:
        components = (inputs,) if batch.get("alone") else (inputs, labels)
        return after(tf.no_op("stamp"), components, batch["whole"])

    found = operations(step, tf.ones(3), tf.ones(3))
    waiting = {op.name for op in found if [each.name for each in op.control_inputs] == ["stamp"]}
    assert waiting == {"Identity"}
    assert [op.inputs[0].op.name for op in found if op.name == "Identity"] == ["inputs"]


def test_a_ragged_batch_is_whole_too() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import after

    @tf.function
    def step(batch: Any) -> Any:
        return after(tf.no_op(), batch, whole=True)

    batch = tf.ragged.constant([[1, 2], [], [3]]), tf.sparse.from_dense([0, 7, 0]), tf.constant(["a"])
    ragged, sparse, strings = step(batch)
    assert ragged.to_list() == [[1, 2], [], [3]] and strings.numpy().tolist() == [b"a"]
    assert tf.sparse.to_dense(sparse).numpy().tolist() == [0, 7, 0]


def test_a_batch_is_asked_for_beside_its_first_stamp_and_used_after_the_second() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.recorder import Recorder

    def fail(error: Exception) -> None:
        raise error

    recorder = Recorder(fail)

    @tf.function
    def step(iterator: Any) -> Any:
        return 2 * recorder.input(lambda: next(iterator))

    iterator = iter(tf.data.Dataset.range(3))
    found = operations(step, iterator)
    (asked,) = (op for op in found if op.type == "IteratorGetNext")
    (held,) = (op for op in found if op.type == "Identity" and op.inputs[0].op is asked)
    begin, end = (op for op in found if op.type in ("TfscaleStamp", "Timestamp"))
    assert not asked.control_inputs and held.control_inputs == [end]
    assert not begin.control_inputs and not any(begin in op.control_inputs for op in found if op.type != "NoOp")
    assert step(iterator).numpy() == 0


def test_the_iterations_of_a_loop_are_read_from_the_graph_around_it() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import iterations, loop_inside

    bodies: list[Any] = []

    def body(index: Any) -> Any:
        bodies.append(loop_inside(tf.compat.v1.get_default_graph(), ()))
        return index + 1

    @tf.function
    def loops(most: Any) -> Any:
        bounded = tf.while_loop(lambda index: index < 4, body, [0], maximum_iterations=4)
        unbounded = tf.while_loop(lambda index: index < 4, body, [0])
        return bounded, unbounded, tf.while_loop(lambda index: index < 4, body, [0], maximum_iterations=most)

    traced = loops.get_concrete_function(tf.TensorSpec((), tf.int32))
    assert [iterations(each) for each in bodies] == [4, 1, 1] and traced is not None
    with tf.Graph().as_default() as graph:
        assert loop_inside(graph, ()) is None


def test_sparse_gradients_are_told_apart_with_the_bytes_that_they_would_have_as_dense_ones() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import dense_bytes, sparse_gradients, wire_type

    found: list[Any] = []

    @tf.function
    def gradients(table: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([table, weights])
            loss = tf.reduce_sum(tf.gather(table, [1, 5]) * weights)
        handed = tape.gradient(loss, [table, weights])
        found.append((len(sparse_gradients(handed)), dense_bytes(sparse_gradients(handed)), wire_type(handed[1:])))
        return handed[1]

    gradients(tf.ones((10, 3)), tf.ones((2, 3)))
    assert found == [(1, 10 * 3 * 4, "float32")] and wire_type([]) == ""
