"""Layout of the columns in the width that there is."""

from __future__ import annotations

import pytest
from tfscale.console.tui.widgets.table.task_columns import USUAL, layout


@pytest.mark.parametrize("width", [10, 40, 75, 76, 115, 195, 400])
def test_columns_never_take_more_than_there_is(width: int) -> None:
    names, hosts = ["worker:999"], ["a-host-with-quite-a-long-name"]
    placed = layout(width, USUAL, names, hosts)
    assert sum(placement.width for placement in placed) + 2 * (len(placed) - 1) <= max(width, 50)
    assert placed[0].column.name == "task" and placed[-1].column.name == "flag"


def test_a_column_that_was_asked_for_stays_before_the_usual_ones() -> None:
    names = [placement.column.name for placement in layout(115, (*USUAL, "heat"), ["worker:0"], ["node"])]
    assert "heat" in names and "host" not in names
