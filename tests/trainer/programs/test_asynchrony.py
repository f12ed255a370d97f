"""Staleness by worker."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow


def test_the_staleness_of_a_worker_has_its_histogram_and_what_the_rates_say() -> None:
    from tfscale.trainer.programs.standalone.asynchrony import Update, of_worker

    pairs = [(0, 0), (0, 0), (1, 2), (0, 1), (0, 0), (0, 0), (1, 3), (0, 1)]
    updates = [Update(number, worker, staleness, 0.5) for number, (worker, staleness) in enumerate(pairs)]
    assert of_worker(updates, 1) == {"updates": 2, "mean": 2.5, "expected": 3.0, "histogram": {2: 1, 3: 1}}
    assert of_worker(updates, 0)["histogram"] == {0: 4, 1: 2}
    assert of_worker(updates, 2) == {"updates": 0, "mean": None, "expected": None, "histogram": {}}


def test_a_worker_without_an_update_has_no_staleness(capsys: pytest.CaptureFixture[str]) -> None:
    from tfscale.trainer.programs.standalone.asynchrony import Update, of_worker, show

    staleness = {f"worker:{index}": of_worker([Update(0, 0, 0, 0.5)], index) for index in (0, 1)}
    accuracy = {"accuracy": 0.9}
    show({"steps_per_second": 2.0, "global_batch": 64, "final_loss": 0.5, "accuracy": accuracy, "staleness": staleness})
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.split() == ["worker:0", "1", "0.00", "0.00", "0:1"] and second.split() == ["worker:1", "0", "-", "-"]
