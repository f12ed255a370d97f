"""A collector that takes its time, hangs, ends or fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise

import pytest
from tfscale.agent.collector_thread import CollectorThread


class Numbers(CollectorThread[int]):
    """Collector of the numbers that a function yields; 0 is none."""

    def __init__(self, numbers: Callable[[], Iterator[int]], period: float = 0.01) -> None:
        super().__init__("numbers", 0, period)
        self._numbers = numbers

    def _samples(self) -> Generator[int]:
        yield from self._numbers()


def ended(collector: Numbers) -> bool:
    collector._thread.join(60)
    return not collector._thread.is_alive()


def test_the_time_that_a_sample_takes_is_part_of_the_period() -> None:
    taken: list[float] = []

    def slowly() -> Iterator[int]:
        while len(taken) < 6:
            time.sleep(0.15)
            taken.append(time.monotonic())
            yield len(taken)

    collector = Numbers(slowly, period=0.2)
    collector.start()
    assert ended(collector)
    assert taken[-1] - taken[0] > 5 * 0.2 - 0.1
    assert min(later - at for at, later in pairwise(taken)) < 0.3


def test_one_that_hangs_blocks_nobody_and_its_last_sample_grows_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    release, is_hanging = threading.Event(), threading.Event()

    def hanging() -> Iterator[int]:
        yield 1
        is_hanging.set()
        release.wait(10)

    collector = Numbers(hanging)
    collector.start()
    assert is_hanging.wait(60) and collector.latest() == 1
    monkeypatch.setattr("tfscale.agent.collector_thread._STALE", 0.0)
    assert collector.latest() == 0
    collector.stop()
    assert collector._thread.is_alive(), "stop does not wait"
    release.set()
    assert ended(collector)


def test_one_that_fails_says_so_once_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[int]:
        raise ZeroDivisionError("of a new driver")
        yield 1

    collector = Numbers(failing)
    with caplog.at_level(logging.ERROR):
        collector.start()
        assert ended(collector)
    assert [record.message for record in caplog.records] == [
        "no more samples of numbers: ZeroDivisionError('of a new driver')"
    ]
    assert collector.latest() == 0


def test_stopping_closes_what_it_samples() -> None:
    is_closed = threading.Event()

    def open_ended() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            is_closed.set()

    collector = Numbers(open_ended, period=60.0)
    collector.start()
    time.sleep(0.1)
    collector.stop()
    assert is_closed.wait(60) and ended(collector)
