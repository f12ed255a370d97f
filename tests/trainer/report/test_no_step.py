"""Programs that end without a step."""

from __future__ import annotations

import sys

import pytest
from tfscale.core.log_clues import UNTRAINED
from tfscale.trainer.probe.report.no_step import no_step
from tfscale.trainer.probe.report.status import Status
from tfscale.trainer.probe.rows.spans import Distribution

TWO = Status(distribution=Distribution("MultiWorkerMirroredStrategy", replicas=2, local_replicas=1))
NONE = Status()


@pytest.mark.parametrize(
    ("status", "has_fit", "has_run", "trains", "told"),
    [
        pytest.param(TWO, True, True, True, True, id="fit of an empty data set"),
        pytest.param(NONE, True, True, True, True, id="fit without a strategy"),
        pytest.param(TWO, False, False, False, True, id="a strategy and nothing else"),
        pytest.param(TWO, False, True, True, True, id="a loop of its own over an empty data set"),
        pytest.param(TWO, False, True, False, False, id="evaluates or predicts"),
        pytest.param(Status(distribution=TWO.distribution, checkpoint=9.0), False, False, False, False, id="saves"),
        pytest.param(NONE, False, True, True, False, id="a loop that nothing measures"),
        pytest.param(NONE, False, False, False, False, id="a helper"),
        pytest.param(Status(measuring=True), True, True, True, False, id="trained"),
        pytest.param(Status(disabled="broken"), True, True, True, False, id="not measured"),
    ],
)
def test_only_what_was_to_train_is_told(status: Status, has_fit: bool, has_run: bool, trains: bool, told: bool) -> None:
    sentence = no_step(status, has_fit, has_run, trains)
    assert (sentence is not None and sentence.startswith(UNTRAINED)) is told


def test_a_script_that_an_error_ends_is_no_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    assert no_step(TWO, True, True, True) is None
