"""What graphs write in rows, and what is read of it: in this process's ring, and in a staging area."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tfscale.core.report_schedule import PERIOD

pytestmark = pytest.mark.tensorflow

RING = 1 << 16
"""Rows that it keeps."""


@pytest.fixture
def area() -> Iterator[Any]:
    from tfscale.trainer.probe.area import StagingArea

    area = StagingArea("of this test")
    area.clear()
    yield area
    area.clear()


@pytest.fixture(params=["ring", "area"])
def staging(request: pytest.FixtureRequest) -> Any:
    from tfscale.trainer.probe.staging import RowBuffer

    return RowBuffer([], request.getfixturevalue(request.param))


@pytest.fixture
def steps(staging: Any) -> Callable[[int], None]:
    return looped(staging)


def looped(staging: Any) -> Callable[[int], None]:
    """As many steps in a loop inside a graph, each a collective that is entered and a row."""
    import tensorflow as tf

    @tf.function
    def loop(number: Any) -> None:
        for _ in tf.range(number):
            stamp = staging.stamp([], enters=True)
            staging.write(3, [stamp, staging.stamp([stamp])])

    def run(number: int) -> None:
        loop(tf.constant(number))

    return run


@pytest.mark.parametrize("first", [[1.0, 2.0], ["a", "b"], [True], []], ids=str)
def test_a_stamp_for_which_others_wait_takes_a_tensor(ring: Any, first: list[Any]) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph import after
    from tfscale.trainer.probe.staging import RowBuffer

    staging, inputs = RowBuffer([], ring), []

    @tf.function
    def step(batch: Any) -> Any:
        stamp = staging.stamp([batch], carrier=batch)
        inputs.append((list(stamp.inputs), [batch]))
        staging.write(4, [stamp])
        return after(stamp, batch, whole=True)

    before = time.time()
    assert step(tf.constant(first)).numpy().tolist() == tf.constant(first).numpy().tolist()
    ((takes, batch),) = inputs
    assert takes == batch
    rows, _ = staging.read()
    assert before <= rows[0, 1] <= time.time()


def test_what_is_exported_of_a_stamp_that_takes_a_tensor_does_nothing(ring: Any) -> None:
    import tensorflow as tf
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph
    from tfscale.trainer.probe.export import write_nothing
    from tfscale.trainer.probe.graph import after
    from tfscale.trainer.probe.staging import RowBuffer

    staging = RowBuffer([], ring)

    @tf.function
    def step(batch: Any) -> Any:
        stamp = staging.stamp([batch], carrier=batch)
        staging.write(4, [stamp])
        return 2.0 * after(stamp, batch, whole=True)

    exported = MetaGraphDef()
    exported.graph_def.library.function.append(step.get_concrete_function(tf.ones(3)).function_def)
    write_nothing(exported)
    operations = function_def_to_graph(exported.graph_def.library.function[0]).get_operations()
    assert not any(op.type.startswith("Tfscale") for op in operations)
    (product,) = (op for op in operations if op.type == "Mul")
    held = product.inputs[1].op
    assert held.type == "Identity" and [each.type for each in held.control_inputs] == ["NoOp"]


@pytest.mark.parametrize(("accelerators", "device"), [(["/device:GPU:0"], ""), ([], "/device:CPU:1")], ids=str)
def test_a_stamp_takes_no_tensor_that_would_have_to_be_copied(ring: Any, accelerators: list[str], device: str) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.staging import RowBuffer

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
    from tfscale.trainer.probe.staging import RowBuffer
    from tfscale.trainer.probe.worker_staging import RemoteRowBuffer

    # TensorFlow itself, which all tests of this process share, has asked by now.
    batch = [tf.ones(3), tf.ones(3)]
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", threads)
    assert RowBuffer(accelerators, ring).delays_whole_batch(batch) is whole
    assert not RemoteRowBuffer().delays_whole_batch(batch)


@pytest.mark.parametrize("number", [0, 1, 6, 85, 300, 5000])
def test_each_row_is_read_once_and_in_its_order(staging: Any, steps: Callable[[int], None], number: int) -> None:
    from tfscale.trainer.probe.row import WIDTH

    steps(number)
    rows, lost = staging.read()
    assert rows.shape == (number, WIDTH) and lost == 0 and staging.entered == number
    assert (rows[:, 0] == 3).all() and (rows[:, 1] <= rows[:, 2]).all()
    assert rows[:, 1].tolist() == sorted(rows[:, 1].tolist())
    assert len(staging.read()[0]) == 0 and staging.entered == number


def test_what_nobody_could_read_of_an_area_is_counted_and_thrown_away(
    area: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfscale.trainer.probe.staging import RowBuffer

    monkeypatch.setattr("tfscale.trainer.probe.area.MOST_ROWS", 10)
    staging = RowBuffer([], area)
    steps = looped(staging)
    steps(7)
    rows, lost = staging.read()
    assert len(rows) == 0 and lost == 14
    steps(2)
    rows, lost = staging.read()
    assert len(rows) == 2 and lost == 0


@pytest.mark.usefixtures("ring")
def test_a_library_for_rows_of_another_width_is_not_used() -> None:
    from tfscale.trainer.probe.native import LIBRARY
    from tfscale.trainer.probe.row import WIDTH

    library = ctypes.CDLL(str(LIBRARY))
    library.tfscale_register.restype = ctypes.c_char_p
    assert library.tfscale_register(None, WIDTH - 1) == b"WIDTH"


def test_a_ring_keeps_the_newest_rows_and_counts_the_others(ring: Any) -> None:
    import tensorflow as tf

    @tf.function
    def write(number: Any) -> None:
        for index in tf.range(number):
            ring.write(1, [tf.cast(index, tf.float64)])

    write(tf.constant(RING + 100))
    rows, lost, _ = ring.take()
    assert lost == 100 and rows[:, 1].tolist() == list(range(100, RING + 100))


def test_a_ring_tells_all_rows_of_many_threads(ring: Any) -> None:
    """While they write, and each row with its own numbers."""
    import threading

    import numpy as np
    import tensorflow as tf

    @tf.function
    def write(thread: Any) -> None:
        for index in tf.range(5000):
            number = tf.cast(index, tf.float64)
            ring.write(2, [thread, number, thread + number])

    threads = [threading.Thread(target=write, args=(tf.constant(1e6 * number, tf.float64),)) for number in range(4)]
    for thread in threads:
        thread.start()
    parts = []
    while any(thread.is_alive() for thread in threads):
        parts.append(ring.take())
    parts.append(ring.take())
    rows = np.concatenate([taken.rows for taken in parts])
    assert sum(taken.lost for taken in parts) == 0 and len(rows) == 20_000
    assert (rows[:, 1] + rows[:, 2] == rows[:, 3]).all()
    for number in range(4):
        assert rows[rows[:, 1] == 1e6 * number, 2].tolist() == list(range(5000))


@pytest.mark.parametrize("calls", [2, 40])
def test_a_function_called_several_times_in_a_step_has_a_row_of_each(staging: Any, calls: int) -> None:
    import tensorflow as tf

    @tf.function
    def called(number: Any) -> Any:
        begin = staging.stamp([number])
        with tf.control_dependencies([begin]):
            later = number + 1.0
        staging.write(5, [begin, staging.stamp([later]), number])
        return later

    @tf.function
    def step(number: Any) -> Any:
        for _ in range(calls):
            number = called(number)
        return number

    step(tf.constant(0.0, tf.float64))
    rows, _ = staging.read()
    assert rows[:, 3].tolist() == list(range(calls))
    times = rows[:, 1:3].ravel()
    assert times.tolist() == sorted(times.tolist())


def test_a_step_that_failed_has_no_row_and_those_after_it_have_theirs(staging: Any) -> None:
    import tensorflow as tf

    @tf.function
    def step(number: Any) -> None:
        begin = staging.stamp([number])
        with tf.control_dependencies([begin, tf.debugging.assert_greater(number, 0.0)]):
            staging.write(5, [begin, staging.stamp([tf.identity(number)]), tf.cast(number, tf.float64)])

    for number in [*[-1.0] * 40, 1.0, -1.0, 2.0]:
        if number > 0:
            step(tf.constant(number))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError):
                step(tf.constant(number))
    rows, lost = staging.read()
    assert rows[:, 3].tolist() == [1, 2] and (rows[:, 1] <= rows[:, 2]).all() and lost == 0


def test_a_stamp_may_be_two_numbers_of_its_row(staging: Any) -> None:
    import tensorflow as tf

    @tf.function
    def step() -> None:
        stamp = staging.stamp([])
        staging.write(4, [stamp, stamp, staging.stamp([stamp]), stamp])

    before = time.time()
    step()
    ((kind, first, second, later, again, *_),), _ = staging.read()
    assert kind == 4 and first == second == again and before - 0.001 <= first <= later <= time.time()


def test_steps_of_several_threads_at_once_keep_their_own_times(staging: Any) -> None:
    import threading

    import tensorflow as tf

    def slept(seconds: Any) -> Any:
        time.sleep(seconds)
        return seconds

    @tf.function
    def step(seconds: Any) -> None:
        begin = staging.stamp([])
        with tf.control_dependencies([begin]):
            done = tf.numpy_function(slept, [seconds], tf.float64)
        staging.write(6, [begin, staging.stamp([done]), seconds])

    def steps(seconds: float) -> None:
        for _ in range(10):
            step(tf.constant(seconds, tf.float64))

    threads = [threading.Thread(target=steps, args=(0.01 * number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, _ = staging.read()
    assert len(rows) == 50 and (rows[:, 2] - rows[:, 1] >= rows[:, 3] - 0.001).all()


def test_areas_are_apart_and_what_is_written_can_be_forgotten(staging: Any, steps: Callable[[int], None]) -> None:
    from tfscale.trainer.probe.area import StagingArea

    steps(3)
    assert len(StagingArea("another").take().rows) == 0
    staging.clear()
    assert len(staging.read()[0]) == 0


def test_without_its_library_or_a_second_time_there_is_no_ring(ring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfscale.trainer.probe import ring as module

    assert module.ring() is ring and module.ring.__wrapped__() is None
    monkeypatch.setattr(module, "OP", "TfscaleStampAnother")
    monkeypatch.setattr(module, "library", lambda: None)
    assert module.ring.__wrapped__() is None


def test_a_library_that_is_not_there_or_another_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tfscale.trainer.probe import native

    monkeypatch.setattr(native, "LIBRARY", tmp_path / "library.so")
    assert native.library.__wrapped__() is None
    (tmp_path / "library.so").write_text("no library")
    assert native.library.__wrapped__() is None
    monkeypatch.setattr(native, "LIBRARY", Path("libm.so.6"))
    assert native.library.__wrapped__() is None


def test_a_probe_that_failed_empties_the_area_that_its_graphs_go_on_to_fill(
    area: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfscale.trainer.probe.probe import Probe
    from tfscale.trainer.probe.staging import RowBuffer

    probe = Probe()
    probe.recorder.staging = RowBuffer([], area)
    probe.fail(RuntimeError("broken on purpose"))
    assert "broken on purpose" in capsys.readouterr().err
    time.sleep(2 * PERIOD)
    looped(probe.recorder.staging)(5)
    deadline = time.monotonic() + 20
    while _staged("of this test") and time.monotonic() < deadline:
        time.sleep(PERIOD / 10)
    assert _staged("of this test") == 0


def _staged(area: str) -> int:
    from tensorflow.python.ops import gen_data_flow_ops
    from tfscale.trainer.probe.row import WIDTH

    return int(gen_data_flow_ops.stage_size(["float64"] * WIDTH, shared_name=area))
