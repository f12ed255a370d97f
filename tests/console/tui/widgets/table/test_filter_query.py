"""The filter's language."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.tui.widgets.appearance.theme import UNICODE
from tfscale.console.tui.widgets.table.filter_query import FilterQuery, filterable, parse
from tfscale.console.tui.widgets.table.row_order import RowOrder, arrange
from tfscale.console.tui.widgets.table.task_columns import COLUMNS, Scene
from tfscale.core.errors import UsageError

SCENE = Scene(fakes.NOW, UNICODE, furthest=1210)


def taken(text: str) -> list[int]:
    wanted = parse(text)
    return [view.task.index for view in fakes.views() if wanted.takes(view, SCENE)]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("", list(range(12))),
        ("straggler", [1]),
        ("worker:1", [1, 10, 11]),
        ("task=worker:1", [1]),
        ("host:node-03", [3]),
        ("state:running flag:straggler", [1]),
        ("role:worker !flag:straggler node-0", [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("lag>100ms", [1]),
        ("lag>100", [1]),
        ("lag>0.1s", [1]),
        ("ratio>=2", [1]),
        ("heat>80", [1]),
        ("gpu>95%", [0, 1]),
        ("gpu>95", [0, 1]),
        ("step>=1,203 step<1204 behind=7", list(range(12))),
        ("memory>40GB", []),
        ("memory>30", list(range(12))),
        ("received>117MB/s", list(range(12))),
        ("up>1h", []),
        ("loss>0", []),
        ("!nothing-of-the-kind worker:2", [2]),
    ],
)
def test_terms_choose_tasks(text: str, indices: list[int]) -> None:
    assert taken(text) == indices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gqu>3", "there is no column 'gqu': use one of task, role, host"),
        ("step>", "step> what? for example step>100"),
        ("time>fast", "'fast' is no number for time: write for example time>80ms"),
        ("time>3parsecs", "'3parsecs' is no number for time"),
        ("host>3", "host is no number: write host:gpu07"),
        ("!bad:x", "there is no column 'bad'"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_every_column_can_be_filtered_and_sorted_by() -> None:
    for name in filterable():
        parse(f"{name}:1").takes(fakes.views()[0], SCENE)
    for column in COLUMNS:
        rows = arrange(fakes.views(), FilterQuery(), RowOrder(column.name), SCENE)
        assert len(rows) == 12
