"""Layout of the columns in the width that there is."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.steps.staleness import Staleness
from tfscale.console.tui.widgets.appearance.theme import UNICODE
from tfscale.console.tui.widgets.table.column_layout import layout
from tfscale.console.tui.widgets.table.filter_query import parse
from tfscale.console.tui.widgets.table.row_order import RowOrder, arrange
from tfscale.console.tui.widgets.table.task_columns import (
    USUAL,
    Scene,
    column_named,
    columns_with,
    usual,
    usual_device,
)
from tfscale.core.records.host_sample import Disk, GpuSample
from tfscale.core.records.task_status import TaskState
from tfscale.core.records.training import TRAINING_DISPLAYS, LoggedNumber, Training

SCENE = Scene(fakes.NOW, UNICODE, furthest=1210)


@pytest.mark.parametrize("width", [10, 40, 75, 76, 115, 195, 400])
def test_columns_never_take_more_than_there_is(width: int) -> None:
    placed = layout(width, USUAL, {"task": 10, "host": 29, "step": 10})
    assert sum(placement.width for placement in placed) + 2 * (len(placed) - 1) <= max(width, 50)
    assert placed[0].column.name == "task" and placed[-1].column.name == "flag"


def test_a_narrow_terminal_keeps_a_flag_that_can_be_read() -> None:
    longest = {"task": 9, "host": 9, "step": 10}
    assert [placed.column.name for placed in layout(76, USUAL, longest)] == [
        "task", "state", "step", "time", "phases", "flag",
    ]  # fmt: skip
    narrow = {placed.column.name: placed.width for placed in layout(54, USUAL, longest)}
    assert list(narrow) == ["task", "state", "phases", "flag"] and narrow["flag"] >= 12


def test_a_column_that_was_asked_for_stays_before_the_usual_ones() -> None:
    names = [placement.column.name for placement in layout(115, (*USUAL, "heat"), {"task": 8})]
    assert "heat" in names and "host" not in names


def test_how_stale_updates_are_is_a_usual_column_where_workers_do_not_wait_for_each_other() -> None:
    views = fakes.views(4)
    assert usual(views) == USUAL
    stale = [
        replace(view, summary=replace(view.summary, staleness=Staleness(1.5, {1: 3, 2: 3})))
        for view in views
        if view.summary
    ]
    columns = [placement.column for placement in layout(115, usual(stale), {"task": 8})]
    (column,) = [column for column in columns if column.name == "stale"]
    assert column.cell(stale[0], SCENE)[0] == "1.50"


def test_a_row_says_its_step_only_where_it_is_behind_or_has_ended_and_its_device_only_where_it_differs() -> None:
    views = fakes.views(4)
    summary, frame = views[0].summary, views[0].frame
    assert summary is not None and frame is not None and frame.status is not None
    late = replace(views[1], summary=replace(summary, global_step=1180))
    idle = replace(views[2], frame=replace(frame, gpus=tuple(replace(gpu, utilisation=0.5) for gpu in frame.gpus)))
    ended = replace(views[3], frame=replace(frame, status=replace(frame.status, state=TaskState.EXITED)))
    scene = replace(SCENE, furthest=1203, steps_apart=20.0, device=usual_device(views, SCENE))
    step, device = column_named("step"), column_named("device")
    assert (step.heading(scene), device.heading(scene)) == ("step 1,203", "GPU 96%")
    assert [step.cell(view, scene)[0] for view in (views[0], late, idle, ended)] == ["", "-23", "", ""]
    assert step.cell(ended, replace(scene, furthest=1204))[0] == "1,203"
    assert [device.cell(view, scene)[0] for view in (views[0], idle)] == ["", "GPU 50%"]


def test_the_disk_of_the_working_folder_is_in_columns_that_are_shown_once_chosen() -> None:
    names = ("disk_read", "disk_written", "disk_free")
    disks = [None, Disk(612_000_000_000, 960_000_000_000), Disk(0, 960_000_000_000, 0.0, 2_000_000.0)]
    views = [
        replace(view, frame=replace(view.frame, host=replace(view.frame.host, disk=disk)))
        for view, disk in zip(fakes.views(3), disks, strict=True)
        if view.frame and view.frame.host
    ]
    cells = [[column_named(name).cell(view, SCENE)[0] for name in names] for view in views]
    assert cells == [["–", "–", "–"], ["–", "–", "612 GB"], ["0 B/s", "2.00 MB/s", "0 B"]]
    assert not set(names) & set(USUAL)


def test_links_and_memory_of_the_gpus_are_in_columns_that_are_shown_once_chosen() -> None:
    names = ("memory_busy", "pcie_received", "pcie_sent", "nvlinks_up", "nvlink_errors")
    told = GpuSample(0, "GPU-0", "H100", memory_utilisation=0.4, pcie_received=2e9, pcie_sent=0.0, nvlinks=18)
    gpus = [
        (),
        (GpuSample(0, "GPU-0", "T4"),),
        (replace(told, nvlinks_up=18, nvlink_errors=0), replace(told, nvlinks_up=17, nvlink_errors=3)),
    ]
    views = [
        replace(view, frame=replace(view.frame, gpus=each))
        for view, each in zip(fakes.views(3), gpus, strict=True)
        if view.frame
    ]
    cells = [[column_named(name).cell(view, SCENE)[0] for name in names] for view in views]
    assert cells == [["–"] * 5, ["–"] * 5, ["40%", "4.00 GB/s", "0 B/s", "17", "3"]]
    assert not set(names) & set(USUAL)


def test_each_number_that_keras_logs_is_a_column_that_can_be_chosen_filtered_and_sorted() -> None:
    logs = ("my_F1", "step")
    found = [
        replace(view, frame=replace(view.frame, training=Training(logs=(LoggedNumber("my_F1", view.task.index / 2),))))
        for view in fakes.views(4)
        if view.frame
    ]
    names = [column.name for column in columns_with(logs)]
    assert names[-2:] == ["my_F1", "flag"] and names.count("step") == 1, "a column's name wins"
    placed = layout(200, (*USUAL, "my_F1", "no_log"), {"task": 8}, logs)
    assert [each.column.name for each in placed][-2:] == ["my_F1", "flag"]
    assert [column_named("my_F1").cell(view, SCENE)[0] for view in found] == ["0", "0.5", "1", "1.5"]
    rows = arrange(found, parse("my_F1>0.5", logs), RowOrder("my_F1"), SCENE)
    assert [task.index for row in rows for task in row.tasks] == [3, 2]


@pytest.mark.parametrize("name", TRAINING_DISPLAYS)
def test_each_number_of_the_training_is_a_column_that_is_shown_once_chosen(name: str) -> None:
    column, display = column_named(name), TRAINING_DISPLAYS[name]
    assert name not in USUAL and len(column.description) <= 40
    found = [
        replace(view, frame=replace(view.frame, training=Training(**{name: view.task.index}) if number else None))
        for number, view in enumerate(fakes.views(4))
        if view.frame
    ]
    cells = [column.cell(view, SCENE)[0] for view in found]
    assert cells == ["–", *(format(index + display.offset, display.format_spec) for index in (1, 2, 3))]
    assert column.of_group(found, SCENE)[0] == cells[2]
    rows = arrange(found, parse(f"{name}>{display.offset + 1}"), RowOrder(name), SCENE)
    assert [task.index for row in rows for task in row.tasks] == [3, 2]
