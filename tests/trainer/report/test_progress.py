"""Progress of the training, from the logs that Keras gives to its callbacks."""

import math
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tfscale.core.records.training import LONGEST_LOG_NAME, MOST_LOGS, LoggedNumber, Training

pytest.importorskip("tensorflow")
from tfscale.trainer.probe.report.progress import Progress
from tfscale.trainer.probe.report.remote_logs import RemoteReader


def progress(logs: Any) -> Progress:
    made = Progress()
    made.epoch_begun(2)
    made.batch_ended(0, logs, SimpleNamespace())
    return made


@pytest.mark.parametrize(
    ("logs", "loss", "finite"),
    [
        ({"loss": 0.5}, 0.5, True),
        ({"loss": float("nan")}, None, False),
        ({}, None, None),
    ],
)
def test_the_loss_is_told_where_it_is_known(logs: Any, loss: float | None, finite: bool | None) -> None:
    told = progress(logs).read()
    assert told is not None
    assert (told.epoch, told.loss, told.finite) == (2, loss, finite)


@pytest.mark.parametrize(("norm", "read"), [(1.5, 1.5), (float("inf"), None)])
def test_the_norm_of_the_gradients_is_told_where_the_program_logs_it(norm: float, read: float | None) -> None:
    told = progress({"loss": 0.5, "grad_norm": norm}).read()
    assert told is not None and told.grad_norm == read
    silent = progress({"loss": 0.5}).read()
    assert silent is not None and silent.grad_norm is None


def test_each_number_that_keras_logs_is_told_beside_the_one_of_the_validation() -> None:
    made = progress({"loss": 0.5, "accuracy": np.float32(0.75), "grad_norm": 1.0})
    made.epoch_ended(1, {"loss": 0.6, "accuracy": 0.7, "val_loss": math.nan, "val_accuracy": 0.5, "my_f1": 0.25})
    told = made.read()
    assert told is not None and told.logs_left_out == 0
    assert told.logs == (
        LoggedNumber("val_loss", None, 1),
        LoggedNumber("accuracy", 0.75),
        LoggedNumber("val_accuracy", 0.5, 1),
        LoggedNumber("my_f1", 0.25, 1),
    )


def test_of_logs_without_end_the_first_are_told_and_the_others_counted() -> None:
    told = progress({f"output_{index}": index for index in range(2 * MOST_LOGS)}).read()
    assert told is not None and [each.value for each in told.logs] == list(range(MOST_LOGS))
    assert told.logs_left_out == MOST_LOGS
    told = progress({"a" * LONGEST_LOG_NAME: 1, "b" * (1 + LONGEST_LOG_NAME): 2}).read()
    assert told is not None and ([each.value for each in told.logs], told.logs_left_out) == ([1.0], 1)


def test_logs_that_are_no_numbers_are_not_told() -> None:
    told = progress({"matrix": np.eye(3), "word": "1", "nothing": None, 7: 1.0}).read()
    assert told is not None and (told.logs, told.logs_left_out) == ((), 0)


def test_a_worker_that_does_not_answer_holds_up_no_report() -> None:
    reader, answers = RemoteReader(), threading.Event()

    def late() -> Training:
        answers.wait()
        return Training(epoch=1)

    assert reader.read(lambda: Training(epoch=0)) == Training(epoch=0)
    assert [reader.read(late), reader.read(late)] == [Training(epoch=0)] * 2, "what was known last"
    answers.set()
    assert reader.read(late) == Training(epoch=1)


def test_at_the_end_of_python_what_was_known_is_told(request: pytest.FixtureRequest) -> None:
    reader = RemoteReader()
    assert reader.read(lambda: Training(epoch=0)) == Training(epoch=0)
    request.getfixturevalue("end_of_python")
    assert reader.read(lambda: Training(epoch=1)) == Training(epoch=0)


def test_of_a_fit_that_is_over_the_last_state_is_told_once() -> None:
    made = progress({"loss": 0.5})
    assert made.read() == made.read() is not None
    made.batch_ended(0, {"loss": 0.25}, SimpleNamespace())
    made.ended()
    told = made.read()
    assert told is not None
    assert told.loss == 0.25
    assert made.read() is None


def test_the_next_fit_is_told_from_its_first_epoch_on() -> None:
    made = progress({"loss": 0.5})
    made.ended()
    made.epoch_begun(0)
    told = made.read()
    assert told is not None
    assert (told.epoch, told.loss) == (0, None)


def test_the_model_of_a_fit_that_is_over_can_be_freed() -> None:
    class Model:
        pass

    made, model = progress({}), Model()
    made.batch_ended(0, {}, model)
    gone = weakref.ref(model)
    made.ended()
    made.read()
    del model
    assert gone() is None


def test_a_loop_and_epochs_that_somebody_will_stop_have_no_length_until_they_are_over() -> None:
    made = Progress()
    made.loop_step_done(3, 10**9)
    told = made.read()
    assert told is not None
    assert (told.epoch_step, told.epoch_steps, told.share_done, told.time_left) == (3, None, None, None)
    made.epoch_begun(1, {"epochs": 10**7, "steps": 100})
    made.batch_ended(4, {}, SimpleNamespace())
    told = made.read()
    assert told is not None
    assert (told.epoch, told.epochs, told.epoch_step, told.epoch_steps, told.share_done) == (1, None, 5, 100, None)
    made.ended()
    told = made.read()
    assert told is not None and (told.time_left, told.share_done) == (0.0, 1.0)
