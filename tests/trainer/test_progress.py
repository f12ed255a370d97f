"""How the training goes, from what Keras handed to its callbacks."""

from types import SimpleNamespace
from typing import Any

import pytest
from tfscale.trainer.probe.progress import Progress


def progress(logs: Any) -> Progress:
    made = Progress()
    made.epoch, made.logs = 2, logs
    return made


@pytest.mark.parametrize(
    ("logs", "loss", "finite"),
    [
        ({"loss": 0.5}, 0.5, True),
        ({"loss": float("nan")}, None, False),
        ({}, None, None),
        (SimpleNamespace(_fetched_tensors={"loss": 0.25}), 0.25, True),
        (SimpleNamespace(_fetched_tensors=None), None, None),
    ],
)
def test_the_loss_is_told_where_it_is_known(logs: Any, loss: float | None, finite: bool | None) -> None:
    told = progress(logs).read()
    assert told is not None
    assert (told.epoch, told.loss, told.finite) == (2, loss, finite)
