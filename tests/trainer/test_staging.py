"""What graphs stage, and what is read of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tfscale.core.moments import PERIOD

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def staging() -> Iterator[Any]:
    from tfscale.trainer.probe.staging import Staging

    staging = Staging([], area="of this test")
    staging.clear()
    yield staging
    staging.clear()


@pytest.fixture
def steps(staging: Any) -> Callable[[int], None]:
    """As many steps in a loop inside a graph, each a collective that is entered and a row."""
    import tensorflow as tf

    @tf.function
    def loop(number: Any) -> None:
        for _ in tf.range(number):
            stamp = staging.stamp([])
            staging.enter(stamp)
            staging.write(3, [stamp, staging.stamp([stamp])])

    def run(number: int) -> None:
        loop(tf.constant(number))

    return run


@pytest.mark.parametrize("number", [0, 1, 6, 85, 300])
def test_each_row_is_read_once_and_in_its_order(staging: Any, steps: Callable[[int], None], number: int) -> None:
    from tfscale.trainer.probe.staging import WIDTH

    steps(number)
    rows, lost = staging.read()
    assert rows.shape == (number, WIDTH) and lost == 0 and staging.entered == number
    assert (rows[:, 0] == 3).all() and (rows[:, 1] <= rows[:, 2]).all()
    assert rows[:, 1].tolist() == sorted(rows[:, 1].tolist())
    assert len(staging.read()[0]) == 0 and staging.entered == number


def test_what_nobody_could_read_is_counted_and_thrown_away(
    staging: Any, steps: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfscale.trainer.probe.staging.MOST_ROWS", 10)
    steps(7)
    rows, lost = staging.read()
    assert len(rows) == 0 and lost == 14
    steps(2)
    rows, lost = staging.read()
    assert len(rows) == 2 and lost == 0


def test_areas_are_apart_and_can_be_emptied(staging: Any, steps: Callable[[int], None]) -> None:
    from tfscale.trainer.probe.staging import Staging

    steps(3)
    assert len(Staging([], area="another").read()[0]) == 0
    staging.clear()
    assert len(staging.read()[0]) == 0


def test_a_probe_that_failed_empties_what_its_graphs_go_on_to_stage(
    staging: Any, steps: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    from tfscale.trainer.probe.probe import Probe

    probe = Probe()
    probe.recorder.staging = staging
    probe.fail(RuntimeError("broken on purpose"))
    assert "broken on purpose" in capsys.readouterr().err
    time.sleep(2 * PERIOD)
    steps(5)
    deadline = time.monotonic() + 20
    while _staged("of this test") and time.monotonic() < deadline:
        time.sleep(PERIOD / 10)
    assert _staged("of this test") == 0


def _staged(area: str) -> int:
    from tensorflow.python.ops import gen_data_flow_ops
    from tfscale.trainer.probe.staging import WIDTH

    return int(gen_data_flow_ops.stage_size(["float64"] * WIDTH, shared_name=area))
