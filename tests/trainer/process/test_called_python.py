"""Time of the Python that graphs call: that of an input which makes batches, and not while its store is full."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
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


def calls(python: CalledPython, clock: list[float], seconds: float, pause: float, until: float) -> list[float | None]:
    """Make calls with pauses between them, and return the share that is read after each second."""
    read, due = [], clock[0] + 1.0

    def work() -> None:
        nonlocal due
        for _ in range(round(10 * seconds)):
            clock[0] += 0.1
            if clock[0] >= due - 1e-6:
                read.append(python.share())
                due += 1.0

    while clock[0] < until:
        python.timed(work)
        clock[0] += pause
    return read


def test_the_share_is_that_of_the_newest_seconds(clock: list[float]) -> None:
    python = CalledPython()
    assert python.share() is None
    assert calls(python, clock, 0.3, 0.7, 120.0)[-1] == pytest.approx(0.3, abs=0.03)
    assert calls(python, clock, 0.9, 0.1, 150.0)[-1] == pytest.approx(0.9, abs=0.03)


def test_calls_of_seconds_are_measured_over_several_of_them_while_one_is_under_way_too(clock: list[float]) -> None:
    read = calls(CalledPython(), clock, 5.0, 1.0, 200.0)
    assert all(share == pytest.approx(5 / 6, abs=0.09) for share in read[20:] if share is not None)


def test_what_a_call_returns_or_raises_is_the_callers_and_a_call_inside_another_is_counted_once() -> None:
    python = CalledPython()
    assert python.timed(lambda: python.timed(lambda: 7)) == 7
    with pytest.raises(StopIteration):
        python.timed(lambda: next(iter(())))
    assert python._calls == 2 and not python._begun


def test_a_thread_of_the_programs_own_may_hide_how_long_its_input_takes(clock: list[float]) -> None:
    python, over = CalledPython(), threading.Event()
    calls(python, clock, 0.3, 0.7, 110.0)
    assert python.share() is not None
    loader = threading.Thread(target=over.wait, name="loader")
    loader.start()
    try:
        assert python.share() is None
    finally:
        over.set()
        loader.join()
    assert python.share() is not None


def test_time_is_that_of_a_real_clock() -> None:
    python = CalledPython()
    python.timed(lambda: time.sleep(0.01))
    python.share()
    for _ in range(11):
        python.timed(lambda: time.sleep(0.1))
    share = python.share()
    assert share is not None and share > 0.9
