"""Order and groups of the rows."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.tui.widgets.appearance.theme import UNICODE
from tfscale.console.tui.widgets.table.filter_query import FilterQuery
from tfscale.console.tui.widgets.table.row_order import RowGroup, RowOrder, arrange
from tfscale.console.tui.widgets.table.task_columns import COLUMNS, Scene
from tfscale.core.cluster.task import Role, Task

SCENE = Scene(fakes.NOW, UNICODE, furthest=1210)


def test_numbers_are_sorted_from_the_largest_and_words_from_a() -> None:
    def order(sort: str, is_reversed: bool = False) -> list[int]:
        rows = arrange(fakes.views(), FilterQuery(), RowOrder(sort, is_reversed), SCENE)
        return [task.index for row in rows for task in row.tasks]

    assert order("lag")[:3] == [1, 0, 2]
    assert order("lag", True)[-1] == 1
    assert order("flag")[0] == 1
    assert order("host")[:2] == [0, 1] and order("host", True)[:2] == [11, 10]
    assert order("task", True)[0] == 11


def test_what_trembles_keeps_its_place() -> None:
    places: dict[Task, int] = {}

    def order(*step_times: float) -> list[int]:
        views = [
            replace(view, summary=replace(view.summary, step_time=step_time))
            for view, step_time in zip(fakes.views(3), step_times, strict=True)
        ]
        tasks = [row.view.task for row in arrange(views, FilterQuery(), RowOrder("time"), SCENE, places)]
        places.update({task: index for index, task in enumerate(tasks)})
        return [task.index for task in tasks]

    assert order(0.070, 0.071, 0.072) == [2, 1, 0]
    assert order(0.073, 0.071, 0.070) == [2, 1, 0]
    assert order(0.073, 0.080, 0.070) == [1, 2, 0]
    assert order(0.090, 0.080, 0.070) == [0, 1, 2]


def test_whoever_is_blamed_comes_first_then_others_with_trouble_each_by_name() -> None:
    blamed = replace(SCENE, named=frozenset({fakes.worker(7)}))
    views = fakes.views()
    views[7] = replace(views[7], diagnoses=views[1].diagnoses)
    rows = arrange(views, FilterQuery(), RowOrder(), blamed, {fakes.worker(11): 0})
    assert [task.index for row in rows for task in row.tasks][:5] == [7, 1, 0, 2, 3]


def test_what_is_unknown_comes_last_either_way() -> None:
    found = fakes.views(3)
    found[0] = replace(found[0], summary=None)
    for is_reversed in (False, True):
        rows = arrange(found, FilterQuery(), RowOrder("lag", is_reversed), SCENE)
        assert rows[-1].tasks == (fakes.worker(0),)


def test_groups_sum_up_and_can_be_closed() -> None:
    found = [*fakes.views(3), replace(fakes.views(1)[0], task=Task(Role.CHIEF, 0))]
    rows = arrange(found, FilterQuery(), RowOrder("flag", group="role", closed=frozenset({"chief"})), SCENE)
    heads = [row for row in rows if isinstance(row, RowGroup)]
    assert [(head.name, len(head.views), head.is_open) for head in heads] == [("worker", 3, True), ("chief", 1, False)]
    assert len(rows) == 2 + 3
    received = next(column for column in COLUMNS if column.name == "received")
    assert received.of_group(heads[0].views, SCENE) == ("354 MB/s", "dim")
    device = next(column for column in COLUMNS if column.name == "device")
    assert device.of_group(heads[0].views, SCENE) == ("96%", "dim")
