"""The ring of this process: rows that are too many, many threads, and a library that does not fit."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow

RING = 1 << 16
"""Rows that the ring keeps."""


@pytest.mark.usefixtures("ring")
def test_a_library_for_rows_of_another_width_is_not_used() -> None:
    from tfscale.trainer.probe.rows.native import LIBRARY
    from tfscale.trainer.probe.rows.row_layout import WIDTH

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
    """The threads write while it is read, each row with its own numbers."""
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


def test_without_its_library_or_a_second_time_there_is_no_ring(ring: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfscale.trainer.probe.rows import ring as module

    assert module.ring() is ring and module.ring.__wrapped__() is None
    monkeypatch.setattr(module, "OP", "TfscaleStampAnother")
    monkeypatch.setattr(module, "library", lambda: None)
    assert module.ring.__wrapped__() is None
