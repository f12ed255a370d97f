"""Pauses of slow workers, within a graph."""

from __future__ import annotations

import argparse
import time

import pytest
from tfscale.core.errors import UsageError

pytestmark = pytest.mark.tensorflow


def test_a_slow_worker_is_read_and_mistakes_are_told() -> None:
    from tfscale.trainer.slow.worker_pause import check_workers, slow_worker

    index, delay = slow_worker("worker:1=3x")
    assert (index, delay.factor, delay.seconds) == (1, 3.0, 0.0)
    assert slow_worker("worker:0=60ms")[1].seconds == pytest.approx(0.06)
    for text in ("worker:1", "worker:1=fast", "chief:0=3x", "worker:1=3x,input"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a slow worker: write worker:1=3x"):
            slow_worker(text)
    with pytest.raises(argparse.ArgumentTypeError, match="a factor below 1"):
        slow_worker("worker:1=0.5x")
    check_workers([(1, delay)], 2)
    with pytest.raises(UsageError, match=r"^--slow worker:1: the workers are 0 to 0$"):
        check_workers([(1, delay)], 1)
    with pytest.raises(UsageError, match=r"^--slow worker:1 is given twice$"):
        check_workers([(1, delay), (0, delay), (1, delay)], 2)


def test_only_the_slow_worker_sleeps_and_gradients_stay_as_they_are() -> None:
    import tensorflow as tf
    from tfscale.trainer.slow.worker_pause import pause, slow_worker

    slow = [slow_worker("worker:1=200ms")]

    @tf.function
    def paused(worker: tf.Tensor) -> tf.Tensor:
        return pause(slow, worker, tf.timestamp(), [tf.constant([1.0, 2.0])])[0]

    paused(tf.constant(0))
    for worker, least, most in ((0, 0.0, 0.15), (1, 0.19, 0.6)):
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            assert paused(tf.constant(worker)).numpy().tolist() == [1.0, 2.0]
            taken.append(time.perf_counter() - begin)
        assert least <= min(taken) < most
