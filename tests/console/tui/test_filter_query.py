"""What can be typed into the filter."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Link, TaskView
from tfscale.console.tui.widgets.appearance.theme import UNICODE
from tfscale.console.tui.widgets.table.filter_query import FilterQuery, filterable, parse
from tfscale.console.tui.widgets.table.row_order import RowGroup, RowOrder, arrange
from tfscale.console.tui.widgets.table.task_columns import BY_NAME, COLUMNS, USUAL, Scene
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records import TRAINING_DISPLAYS, GpuSample, Training

SCENE = Scene(fakes.NOW, UNICODE, furthest=1210)


def views(count: int = 12) -> list[TaskView]:
    """worker:1 is slow, and warm."""
    cluster = fakes.spec(count)
    found = fakes.summaries(cluster, fakes.worker(1))
    return [
        TaskView(
            task,
            cluster.agents[task],
            Link(LinkState.UP, "", fakes.NOW - 30),
            fakes.description(task),
            replace(fakes.frame(task), gpus=(gpu(0.97 - task.index / 100, 90.0 if task.index == 1 else 60.0),)),
            found[str(task)],
            diagnoses=(fakes.straggler(),) if task.index == 1 else (),
        )
        for task in cluster.tasks
    ]


def gpu(use: float, heat: float) -> GpuSample:
    return GpuSample(0, "GPU-0", "A100", utilisation=use, memory_used=33_000_000_000, temperature=heat, power=300.0)


def taken(text: str) -> list[int]:
    wanted = parse(text)
    return [view.task.index for view in views() if wanted.takes(view, SCENE)]


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
        parse(f"{name}:1").takes(views()[0], SCENE)
    for column in COLUMNS:
        rows = arrange(views(), FilterQuery(), RowOrder(column.name), SCENE)
        assert len(rows) == 12


def test_numbers_are_sorted_from_the_largest_and_words_from_a() -> None:
    def order(sort: str, is_reversed: bool = False) -> list[int]:
        rows = arrange(views(), FilterQuery(), RowOrder(sort, is_reversed), SCENE)
        return [task.index for row in rows for task in row.tasks]

    assert order("lag")[:3] == [1, 0, 2]
    assert order("lag", True)[-1] == 1
    assert order("flag")[0] == 1
    assert order("host")[:2] == [0, 1] and order("host", True)[:2] == [11, 10]
    assert order("task", True)[0] == 11


@pytest.mark.parametrize("name", TRAINING_DISPLAYS)
def test_each_number_of_the_training_is_a_column_that_is_shown_once_chosen(name: str) -> None:
    column, display = BY_NAME[name], TRAINING_DISPLAYS[name]
    assert name not in USUAL and len(column.about) <= 40
    found = [
        replace(view, frame=replace(view.frame, training=Training(**{name: view.task.index}) if number else None))
        for number, view in enumerate(views(4))
        if view.frame
    ]
    cells = [column.cell(view, SCENE)[0] for view in found]
    assert cells == ["–", *(format(index + display.offset, display.format_spec) for index in (1, 2, 3))]
    assert column.of_group(found, SCENE)[0] == cells[2]
    rows = arrange(found, parse(f"{name}>{display.offset + 1}"), RowOrder(name), SCENE)
    assert [task.index for row in rows for task in row.tasks] == [3, 2]


def test_what_trembles_keeps_its_place() -> None:
    trembling = views(2)
    slower = replace(trembling[0], summary=replace(trembling[0].summary, step_time=0.0721))
    faster = replace(trembling[1], summary=replace(trembling[1].summary, step_time=0.0722))
    rows = arrange([slower, faster], FilterQuery(), RowOrder("time"), SCENE)
    assert [task.index for row in rows for task in row.tasks] == [0, 1]


def test_what_is_unknown_comes_last_either_way() -> None:
    found = views(3)
    found[0] = replace(found[0], summary=None)
    for is_reversed in (False, True):
        rows = arrange(found, FilterQuery(), RowOrder("lag", is_reversed), SCENE)
        assert rows[-1].tasks == (fakes.worker(0),)


def test_groups_sum_up_and_can_be_closed() -> None:
    found = [*views(3), replace(views(1)[0], task=Task(Role.CHIEF, 0))]
    rows = arrange(found, FilterQuery(), RowOrder("flag", group="role", closed=frozenset({"chief"})), SCENE)
    heads = [row for row in rows if isinstance(row, RowGroup)]
    assert [(head.name, len(head.views), head.is_open) for head in heads] == [("worker", 3, True), ("chief", 1, False)]
    assert len(rows) == 2 + 3
    received = next(column for column in COLUMNS if column.name == "received")
    assert received.of_group(heads[0].views, SCENE) == ("354 MB/s", "dim")
    device = next(column for column in COLUMNS if column.name == "device")
    assert device.of_group(heads[0].views, SCENE) == ("96%", "dim")
