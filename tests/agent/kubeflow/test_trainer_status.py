"""Kubeflow's Trainer is told how far the training is, and a server that does not take it costs nothing."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kube.status_server import PATH, StatusServer, status_server
from local_cluster import wait_until
from tfscale.agent.kubeflow.trainer_status import LAST_PATIENCE, TrainerStatus, status
from tfscale.core.records.training import LoggedNumber, Training

TRAINING = Training(
    epoch=0, epochs=4, epoch_step=30, epoch_steps=60, time_left=70.0, loss=0.5, logs=(LoggedNumber("accuracy", 0.75),)
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StatusServer]:
    with status_server(tmp_path) as served:
        yield served


def poster(server: StatusServer, **changes: str) -> TrainerStatus:
    made = TrainerStatus.of(server.variables | changes)
    assert made is not None
    return made


def sent(server: StatusServer, post: Callable[[], None]) -> None:
    before = len(server.posts)
    post()
    wait_until(lambda: len(server.posts) > before, 30)


def test_the_server_gets_how_far_the_training_is_and_its_numbers(server: StatusServer) -> None:
    status = poster(server)
    status.look(None)
    sent(server, lambda: status.look(TRAINING))
    status.look(TRAINING)
    server.token.write_text("renewed")
    status.finish(TRAINING, is_done=True)
    assert [(path, token) for path, token, _ in server.posts] == [(PATH, "Bearer first"), (PATH, "Bearer renewed")]
    first, last = server.statuses
    assert (first["progressPercentage"], first["estimatedRemainingSeconds"]) == (12, 70)
    numbers = {each["name"]: each["value"] for each in first["metrics"]}
    assert (numbers["loss"], numbers["accuracy"], numbers["epoch"]) == ("0.5", "0.75", "1")
    assert (last["progressPercentage"], last["estimatedRemainingSeconds"]) == (100, 0)
    assert time.strptime(last["lastUpdatedTime"], "%Y-%m-%dT%H:%M:%SZ")


def test_what_is_not_known_is_not_told() -> None:
    assert status(Training(), is_over=True).keys() == {"lastUpdatedTime"}
    assert "estimatedRemainingSeconds" not in status(TRAINING, is_over=True), "it has failed"
    over = Training(epoch=0, epochs=1, epoch_step=5, epoch_steps=5, time_left=0.0)
    assert (status(over)["progressPercentage"], "estimatedRemainingSeconds" in status(over)) == (99, False)


@pytest.mark.parametrize(
    ("answer", "changes", "reason"),
    [
        (401, {}, "HTTP Error 401"),
        (307, {}, "HTTP Error 307"),
        (200, {"KUBEFLOW_TRAINER_SERVER_CA_CERT": ""}, "certificate verify failed"),
        (200, {"KUBEFLOW_TRAINER_SERVER_TOKEN": "/nowhere/token"}, "/nowhere/token"),
        (200, {"KUBEFLOW_TRAINER_SERVER_URL": "https://localhost:1/"}, "refused"),
    ],
)
def test_a_server_that_does_not_take_it_is_told_once(
    answer: int, changes: dict[str, str], reason: str, server: StatusServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = answer
    status = poster(server, **changes)
    for _ in range(2):
        status.finish(TRAINING, is_done=False)
    (line,) = caplog.messages
    assert line.startswith("the status is not posted to Kubeflow's Trainer, trying on: https://") and reason in line
    assert len(server.posts) == (2 if answer != 200 else 0), "a redirection is not followed"


def test_a_server_that_hangs_delays_the_end_by_seconds_alone(server: StatusServer) -> None:
    server.answer = 0
    status = poster(server)
    sent(server, lambda: status.look(TRAINING))
    began = time.monotonic()
    status.look(TRAINING)
    assert time.monotonic() - began < 5
    status.finish(TRAINING, is_done=True)
    assert time.monotonic() - began < LAST_PATIENCE + 5
    assert len(server.posts) == 2


@pytest.mark.parametrize(
    "changes", [{"KUBEFLOW_TRAINER_SERVER_URL": "http://trainer/"}, {"KUBEFLOW_TRAINER_SERVER_TOKEN": ""}]
)
def test_a_token_is_not_sent_in_plain_text(
    changes: dict[str, str], server: StatusServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert TrainerStatus.of({}) is None and not caplog.messages
    assert TrainerStatus.of(server.variables | changes) is None
    assert "needs an https:// address" in caplog.text
