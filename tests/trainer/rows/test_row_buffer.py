"""Rows that graphs write, and that are read: in this process's ring, and in a staging area."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("first", [[1.0, 2.0], ["a", "b"], [True], []], ids=str)
def test_a_stamp_for_which_others_wait_takes_a_tensor(ring: Any, first: list[Any]) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.structures import after
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    buffer, inputs = RowBuffer([], ring), []

    @tf.function
    def step(batch: Any) -> Any:
        stamp = buffer.stamp([batch], carrier=batch)
        inputs.append((list(stamp.inputs), [batch]))
        buffer.write(4, [stamp])
        return after(stamp, batch, whole=True)

    before = time.time()
    assert step(tf.constant(first)).numpy().tolist() == tf.constant(first).numpy().tolist()
    ((takes, batch),) = inputs
    assert takes == batch
    rows, _ = buffer.read()
    assert before <= rows[0, 1] <= time.time()


def test_a_buffer_tells_whether_its_stamps_are_ops_of_the_compiled_library(ring: Any, area: Any) -> None:
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    assert RowBuffer([], ring).is_compiled and not RowBuffer([], area).is_compiled


@pytest.mark.parametrize(("accelerators", "device"), [(["/device:GPU:0"], ""), ([], "/device:CPU:1")], ids=str)
def test_a_stamp_takes_no_tensor_that_would_have_to_be_copied(ring: Any, accelerators: list[str], device: str) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    takes = []

    @tf.function
    def step() -> None:
        with tf.device(device):
            batch = tf.ones(3)
        takes.append(list(RowBuffer(accelerators, ring).stamp([batch], carrier=batch).inputs))

    step.get_concrete_function()
    assert takes == [[]]


@pytest.mark.parametrize(
    ("threads", "accelerators", "whole"), [("1", [], True), ("2", [], False), ("1", ["GPU"], False)]
)
def test_a_whole_batch_waits_where_ops_run_in_one_thread(
    ring: Any, monkeypatch: pytest.MonkeyPatch, threads: str, accelerators: list[str], whole: bool
) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.remote_row_buffer import RemoteRowBuffer
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    # TensorFlow itself, which all tests of this process share, has asked by now.
    batch = [tf.ones(3), tf.ones(3)]
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", threads)
    assert RowBuffer(accelerators, ring).delays_whole_batch(batch) is whole
    assert not RemoteRowBuffer().delays_whole_batch(batch)


@pytest.mark.parametrize("number", [0, 1, 6, 85, 300, 5000])
def test_each_row_is_read_once_and_in_its_order(buffer: Any, steps: Callable[[int], None], number: int) -> None:
    from tfscale.trainer.probe.rows.row_layout import WIDTH

    steps(number)
    rows, lost = buffer.read()
    assert rows.shape == (number, WIDTH) and lost == 0 and buffer.entered == number
    assert (rows[:, 0] == 3).all() and (rows[:, 1] <= rows[:, 2]).all()
    assert rows[:, 1].tolist() == sorted(rows[:, 1].tolist())
    assert len(buffer.read()[0]) == 0 and buffer.entered == number


@pytest.mark.parametrize("calls", [2, 40])
def test_a_function_called_several_times_in_a_step_has_a_row_of_each(buffer: Any, calls: int) -> None:
    import tensorflow as tf

    @tf.function
    def called(number: Any) -> Any:
        begin = buffer.stamp([number])
        with tf.control_dependencies([begin]):
            later = number + 1.0
        buffer.write(5, [begin, buffer.stamp([later]), number])
        return later

    @tf.function
    def step(number: Any) -> Any:
        for _ in range(calls):
            number = called(number)
        return number

    step(tf.constant(0.0, tf.float64))
    rows, _ = buffer.read()
    assert rows[:, 3].tolist() == list(range(calls))
    times = rows[:, 1:3].ravel()
    assert times.tolist() == sorted(times.tolist())


def test_a_step_that_failed_has_no_row_and_those_after_it_have_theirs(buffer: Any) -> None:
    import tensorflow as tf

    @tf.function
    def step(number: Any) -> None:
        begin = buffer.stamp([number])
        with tf.control_dependencies([begin, tf.debugging.assert_greater(number, 0.0)]):
            buffer.write(5, [begin, buffer.stamp([tf.identity(number)]), tf.cast(number, tf.float64)])

    for number in [*[-1.0] * 40, 1.0, -1.0, 2.0]:
        if number > 0:
            step(tf.constant(number))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError):
                step(tf.constant(number))
    rows, lost = buffer.read()
    assert rows[:, 3].tolist() == [1, 2] and (rows[:, 1] <= rows[:, 2]).all() and lost == 0


def test_a_stamp_may_be_two_numbers_of_its_row(buffer: Any) -> None:
    import tensorflow as tf

    @tf.function
    def step() -> None:
        stamp = buffer.stamp([])
        buffer.write(4, [stamp, stamp, buffer.stamp([stamp]), stamp])

    before = time.time()
    step()
    ((kind, first, second, later, again, *_),), _ = buffer.read()
    assert kind == 4 and first == second == again and before - 0.001 <= first <= later <= time.time()


def test_steps_of_several_threads_at_once_keep_their_own_times(buffer: Any) -> None:
    import threading

    import tensorflow as tf

    def slept(seconds: Any) -> Any:
        time.sleep(seconds)
        return seconds

    @tf.function
    def step(seconds: Any) -> None:
        begin = buffer.stamp([])
        with tf.control_dependencies([begin]):
            done = tf.numpy_function(slept, [seconds], tf.float64)
        buffer.write(6, [begin, buffer.stamp([done]), seconds])

    def steps(seconds: float) -> None:
        for _ in range(10):
            step(tf.constant(seconds, tf.float64))

    threads = [threading.Thread(target=steps, args=(0.01 * number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, _ = buffer.read()
    assert len(rows) == 50 and (rows[:, 2] - rows[:, 1] >= rows[:, 3] - 0.001).all()


def test_areas_are_apart_and_what_is_written_can_be_forgotten(buffer: Any, steps: Callable[[int], None]) -> None:
    from tfscale.trainer.probe.rows.staging_area import StagingArea

    steps(3)
    assert len(StagingArea("another").take().rows) == 0
    buffer.clear()
    assert len(buffer.read()[0]) == 0
