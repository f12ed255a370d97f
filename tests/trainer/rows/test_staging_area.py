"""Rows in a staging area that nobody reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tfscale.core.report_schedule import PERIOD

pytestmark = pytest.mark.tensorflow


def test_what_nobody_could_read_of_an_area_is_counted_and_thrown_away(
    area: Any, looped: Callable[[Any], Callable[[int], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    monkeypatch.setattr("tfscale.trainer.probe.rows.staging_area.MOST_ROWS", 10)
    buffer = RowBuffer([], area)
    steps = looped(buffer)
    steps(7)
    rows, lost = buffer.read()
    assert len(rows) == 0 and lost == 14
    steps(2)
    rows, lost = buffer.read()
    assert len(rows) == 2 and lost == 0


def test_a_probe_that_failed_empties_the_area_that_its_graphs_go_on_to_fill(
    area: Any, looped: Callable[[Any], Callable[[int], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    from tfscale.trainer.probe.probe import Probe
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    probe = Probe()
    probe.recorder.graphs.buffer = RowBuffer([], area)
    probe.fail(RuntimeError("broken on purpose"))
    assert "broken on purpose" in capsys.readouterr().err
    time.sleep(2 * PERIOD)
    looped(probe.recorder.graphs.buffer)(5)
    deadline = time.monotonic() + 60
    while _staged("of this test") and time.monotonic() < deadline:
        time.sleep(PERIOD / 10)
    assert _staged("of this test") == 0


def _staged(area: str) -> int:
    from tensorflow.python.ops import gen_data_flow_ops
    from tfscale.trainer.probe.rows.row_layout import WIDTH

    return int(gen_data_flow_ops.stage_size(["float64"] * WIDTH, shared_name=area))
