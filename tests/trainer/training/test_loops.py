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


def test_every_number_of_steps_has_epochs_of_about_a_hundred() -> None:
    from tfscale.trainer.training.loops import epochs, epochs_of

    assert [epochs_of(steps) for steps in (1, 7, 100, 150, 151, 400, 503, 10_007)] == [
        *((1, 1), (1, 7), (1, 100), (1, 150), (2, 75), (4, 100), (5, 100), (100, 100))
    ]
    assert [epochs_of(steps, 2) for steps in (1, 2, 7, 100, 400)] == [(1, 1), (2, 1), (2, 3), (2, 50), (4, 100)]
    assert [*epochs(503)] == [(0, 100), (100, 200), (200, 300), (300, 400), (400, 500), (500, 503)]
    for steps in range(1, 1200):
        ends = [end for _, end in epochs(steps)]
        assert ends[-1] == steps and ends == sorted(ends) and len(ends) <= steps / 100 + 2


def test_the_rate_is_that_after_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfscale.trainer.training.loops import Stopwatch

    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", iter([0.0, 0.5, 0.75, 1.0, 1.25]).__next__)
        watch = Stopwatch()
        for made in (1, 3, 5):
            watch.made(made)
        trained = watch.trained([], 6)
    assert (trained.first_steps, trained.first_steps_seconds, trained.seconds) == (1, 0.5, 1.25)
    assert trained.steps_per_second == 8.0
    assert Stopwatch().trained([], 5).steps_per_second is None


# Keras warns that it does not shuffle a data set, which is its default.
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_fit_makes_every_step_of_a_number_that_no_epochs_divide(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np
    import tensorflow as tf
    from tfscale.trainer.training import loops

    monkeypatch.setattr(loops, "EPOCH", 3)
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))).repeat()
    saved: list[int] = []
    course = loops.Course(7, begin=10, after_epoch=lambda step, _: saved.append(step))
    trained = loops.fit(tf.keras, model, data, course, [], asynchronous)
    assert saved == [13, 16, 17] and int(model.optimizer.iterations) == 7
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["step 13", "step 16", "step 17"]
    assert [step for step, _ in trained.losses] == ([13, 16, 17] if asynchronous else [*range(11, 18)])
    losses = [loss for _, loss in trained.losses]
    assert losses == sorted(losses, reverse=True) and len({*losses}) == len(losses), "of another order of the steps"
    assert trained.first_steps == (3 if asynchronous else 1)
    assert trained.steps_per_second is not None and trained.steps_per_second > 10


def test_a_run_that_goes_on_counts_from_the_trainings_begin(capsys: pytest.CaptureFixture[str]) -> None:
    from tfscale.trainer.training.loops import Course

    saved: list[tuple[int, float]] = []
    course = Course(steps=50, begin=200, after_epoch=lambda *epoch: saved.append(epoch))
    course.end_epoch(50, 0.5)
    assert capsys.readouterr().out == "step 250: mean loss 0.5000\n" and saved == [(250, 0.5)]
    assert course.numbered([(1, 2.0)]) == [(201, 2.0)]
