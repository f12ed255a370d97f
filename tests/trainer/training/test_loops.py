"""Losses and times of loops."""

from __future__ import annotations

import time
from statistics import fmean

import pytest

pytestmark = pytest.mark.tensorflow


def test_the_loss_of_each_step_is_found_in_means_since_the_begin_of_an_epoch() -> None:
    from tfscale.trainer.training.loops import of_each_step

    losses = [4.0, 2.0, 3.0, 1.0, 5.0, 0.5]
    means = [(1 + step % 3, fmean(losses[step - step % 3 : step + 1])) for step in range(6)]
    assert of_each_step(means) == [(step, pytest.approx(loss)) for step, loss in enumerate(losses, 1)]


def test_epochs_share_the_steps_evenly() -> None:
    from tfscale.trainer.training.loops import epoch_of

    assert [epoch_of(steps) for steps in (7, 100, 150, 400, 250, 1050, 503)] == [7, 100, 75, 100, 125, 105, 503]


def test_the_rate_is_that_after_the_first_step() -> None:
    from tfscale.trainer.training.loops import Stopwatch

    watch = Stopwatch()
    time.sleep(0.1)
    watch.made(1)
    time.sleep(0.1)
    watch.made(2)
    trained = watch.trained([], 5)
    assert trained.first_steps == 1 and trained.first_steps_seconds == pytest.approx(0.1, abs=0.05)
    assert trained.steps_per_second == pytest.approx(40, rel=0.3)
    assert Stopwatch().trained([], 5).steps_per_second is None


def test_a_run_that_goes_on_counts_from_the_trainings_begin(capsys: pytest.CaptureFixture[str]) -> None:
    from tfscale.trainer.training.loops import Course

    saved: list[tuple[int, float]] = []
    course = Course(steps=50, begin=200, after_epoch=lambda *epoch: saved.append(epoch))
    course.end_epoch(50, 0.5)
    assert capsys.readouterr().out == "step 250: mean loss 0.5000\n" and saved == [(250, 0.5)]
    assert course.numbered([(1, 2.0)]) == [(201, 2.0)] and course.epoch == 50
