"""Pace of a training, and the time that it has left."""

import pytest
from tfscale.trainer.probe.report.pace import Pace


class Training:
    """A `fit` on a clock of its own, of whose pace somebody asks once a second."""

    def __init__(self, steps: int, epochs: int) -> None:
        self.now, self.steps, self.epochs, self.epoch = 0.0, steps, epochs, -1
        self.pace = Pace(lambda: self.now)
        self.left: float | None = None
        self._asked = 0.0

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.pace.epoch_begun()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self._asked + 1.0 <= end:
            self.now = self._asked = self._asked + 1.0
            self.left = self.pace.time_left(self.steps, self.epochs - self.epoch - 1)
        self.now = end

    def step(self, first: int, last: int, seconds: float) -> None:
        for number in range(first, last + 1):
            self.pass_time(seconds)
            self.pace.step_done(number)


@pytest.mark.parametrize("seconds", [5.0, 0.25, 0.002])
def test_the_time_left_is_that_of_the_steps_that_are_left(seconds: float) -> None:
    training = Training(round(1000 / seconds), 1)
    training.begin_epoch()
    training.pass_time(40.0)  # the first step compiles
    training.step(1, round(100 / seconds), seconds)
    assert training.left == pytest.approx(900.0, rel=0.02)


def test_nothing_is_said_of_the_first_seconds_and_of_a_standstill() -> None:
    training = Training(1000, 1)
    training.begin_epoch()
    training.step(1, 9, 1.0)
    assert training.left is None, "nine seconds"
    training.step(10, 30, 1.0)
    assert training.left == pytest.approx(970, rel=0.02)
    training.pass_time(30.0)
    assert training.left is not None
    training.pass_time(40.0)
    assert training.left is None, "it stands for longer than a minute"
    training.step(31, 40, 1.0)
    assert training.left == pytest.approx(960, rel=0.02), "it was one standstill"


def test_pauses_that_return_are_counted_and_a_new_pace_is_taken_over() -> None:
    training = Training(10_000, 1)
    training.begin_epoch()
    for minute in range(10):
        training.step(1 + minute * 50, (minute + 1) * 50, 1.0)
        training.pass_time(10.0)  # a checkpoint
    assert training.left == pytest.approx(9500 * 1.2, rel=0.05)
    training.step(501, 800, 2.0)
    assert training.left == pytest.approx(9200 * 2.0, rel=0.05)


def test_validations_are_counted_once_one_is_known() -> None:
    training = Training(100, 3)
    for _ in range(2):
        training.begin_epoch()
        training.step(1, 50, 1.0)
        first = training.left
        training.step(51, 100, 1.0)
        training.pass_time(20.0)
        after = training.left
    assert training.pace.between_epochs == pytest.approx(20.0)
    # In the second epoch: 50 steps, two validations and an epoch are left; then an epoch and its validation.
    assert first == pytest.approx(50 + 2 * 20 + 100, abs=6)
    assert after == pytest.approx(100 + 20, abs=6)


def test_epochs_shorter_than_a_second_have_a_pace() -> None:
    training = Training(10, 10_000)
    for _ in range(1000):
        training.begin_epoch()
        training.step(1, 10, 0.002)
        training.pass_time(0.01)
    assert training.left == pytest.approx(9000 * 0.03, rel=0.05)


def test_steps_that_are_noted_when_they_are_scheduled_are_compared_by_whole_epochs() -> None:
    training, left = Training(100, 5), []
    for _ in range(3):
        training.begin_epoch()
        training.step(1, 100, 0.001)
        training.pass_time(29.9)  # joined
        left.append(training.pace.time_left(100, 4 - training.epoch, is_step_done=False))
    assert left == [None, None, pytest.approx(60.0, abs=2)]


@pytest.mark.parametrize(
    ("steps", "seconds", "is_endless"), [(10**8, 0.1, True), (10**8, 0.01, False), (90, 1e5, True)]
)
def test_a_length_of_more_than_ninety_days_is_none(steps: int, seconds: float, is_endless: bool) -> None:
    training = Training(steps, 1)
    training.begin_epoch()
    assert training.pace.is_endless(steps) == (steps == 10**8), "by a tenth of a second a step, until one is known"
    training.step(1, 1 + max(10, round(20 / seconds)), seconds)
    assert training.left is not None and training.pace.is_endless(steps) == is_endless
