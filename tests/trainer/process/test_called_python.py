"""Time of the Python that graphs call: that of an input which makes batches, and not while its store is full."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tensorflow.python.distribute.coordinator.watchdog import WatchDog
from tfscale.trainer.probe.process import called_python
from tfscale.trainer.probe.process.called_python import CalledPython


@pytest.fixture(autouse=True)
def without_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the threads of pytest's plugins."""
    present = tuple(thread.name for thread in threading.enumerate())
    monkeypatch.setattr(called_python, "_NOT_OF_THE_PROGRAM", (*called_python._NOT_OF_THE_PROGRAM, *present))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time as a list of one, which a test moves on."""
    now = [100.0]
    monkeypatch.setattr(called_python, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def steps(python: CalledPython, clock: list[float], call: float, rest: float, until: float, made: int = 0) -> list[Any]:
    """Make steps, each of a call and a rest of so many seconds, and return what is read after each second."""
    read, due = [], clock[0] + 1.0
    while clock[0] < until:
        python.timed(lambda: clock.__setitem__(0, clock[0] + call))
        clock[0] += rest
        made += 1
        if clock[0] >= due:
            read.append(python.per_step(made))
            due = clock[0] + 1.0
    return read


def test_the_seconds_are_those_of_the_newest_steps(clock: list[float]) -> None:
    python = CalledPython()
    assert python.per_step(0) is None
    assert steps(python, clock, 0.03, 0.07, 120.0)[-1] == pytest.approx(0.03, rel=0.03)
    assert steps(python, clock, 0.09, 0.01, 150.0, made=1000)[-1] == pytest.approx(0.09, rel=0.03)


def test_an_input_without_python_takes_none(clock: list[float]) -> None:
    python = CalledPython()
    python.per_step(1)
    clock[0] += 1.0
    assert python.per_step(11) == 0.0


def test_calls_of_seconds_are_measured_over_several_of_them(clock: list[float]) -> None:
    read = steps(CalledPython(), clock, 5.0, 1.0, 300.0)
    assert read[-1] == pytest.approx(5.0, rel=0.05)


def test_what_is_made_while_no_step_is_does_not_count(clock: list[float]) -> None:
    python = CalledPython()
    before = steps(python, clock, 0.03, 0.07, 120.0)[-1]
    python.timed(lambda: clock.__setitem__(0, clock[0] + 0.12))
    clock[0] += 60.0
    assert python.per_step(150) == before


def test_what_a_call_returns_or_raises_is_the_callers_and_a_call_inside_another_is_counted_once() -> None:
    python = CalledPython()
    assert python.timed(lambda: python.timed(lambda: 7)) == 7
    with pytest.raises(StopIteration):
        python.timed(lambda: next(iter(())))
    assert python._calls == 2 and not python._begun


def test_a_thread_of_the_programs_own_may_hide_how_long_its_input_takes(clock: list[float]) -> None:
    python, over = CalledPython(), threading.Event()
    steps(python, clock, 0.03, 0.07, 110.0)
    loader = threading.Thread(target=over.wait, name="loader")
    loader.start()
    try:
        assert python.per_step(200) is None
    finally:
        over.set()
        loader.join()
    assert python.per_step(200) is not None


def test_a_thread_with_which_tensorflow_watches_workers_hides_nothing(clock: list[float]) -> None:
    python = CalledPython()
    steps(python, clock, 0.03, 0.07, 110.0)
    watch = WatchDog(timeout=60, on_triggered=lambda: None)
    try:
        assert python.per_step(200) is not None
    finally:
        watch.stop()


def test_time_is_that_of_a_real_clock() -> None:
    python = CalledPython()
    python.timed(lambda: time.sleep(0.01))
    python.per_step(1)
    begin = time.monotonic()
    for _ in range(4):
        python.timed(lambda: time.sleep(0.05))
    seconds, passed = python.per_step(5), time.monotonic() - begin
    assert seconds is not None and 0.045 < seconds < 1.1 * passed / 4
