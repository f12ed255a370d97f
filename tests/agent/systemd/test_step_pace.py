"""Pace of the own task, as its agent knows it."""

import pytest
from tfscale.agent.systemd.step_pace import StepPace


class Task:
    def __init__(self) -> None:
        self.now, self.steps = 0.0, 0
        self.pace = StepPace(lambda: self.now)

    def make(self, steps: int, seconds: float) -> None:
        """Report so many steps, one after the other, to an agent that looks once a second."""
        end = self.steps + steps
        while self.steps < end:
            self.now += max(1.0, seconds)
            self.steps = min(end, self.steps + max(1, round(1.0 / seconds)))
            self.pace.look(self.steps)


@pytest.mark.parametrize("seconds", [5.0, 0.002])
def test_the_rate_is_that_of_the_newest_steps_until_none_comes(seconds: float) -> None:
    task = Task()
    task.pace.look(0)
    assert (task.pace.rate, task.pace.silent) == (None, None)
    task.make(round(100 / seconds), seconds)
    assert task.pace.rate == pytest.approx(1 / seconds)
    task.now += 31.0
    assert (task.pace.silent is None) is (seconds == 5.0), "30 s, and ten usual steps"
    task.now += 20.0
    assert (task.pace.rate, task.pace.silent) == (None, 51.0)
    task.make(1, 1.0)
    assert task.pace.silent is None


def test_a_new_attempt_counts_anew() -> None:
    task = Task()
    task.make(100, 0.1)
    task.steps = 0
    task.pace.look(0)
    assert task.pace.rate is None
