"""Rows of the task table, their order and their groups, without any drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.table.filter_query import FilterQuery
from tfscale.console.tui.widgets.table.task_columns import Column, Scene, Value, column_named
from tfscale.core.cluster.task import Task

GROUPINGS = ("", "host", "role")
"""Properties by which tasks can be grouped; empty: no groups."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Sort column, direction and grouping of the rows."""

    sort: str = "task"
    is_reversed: bool = False
    group: str = ""
    closed: frozenset[str] = field(default_factory=frozenset)
    """Groups whose tasks are hidden."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Heading row of the tasks that share a host or a role."""

    name: str
    views: tuple[TaskView, ...]
    is_open: bool

    @property
    def key(self) -> str:
        return self.name

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(view.task for view in self.views)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Row of one task."""

    view: TaskView

    @property
    def key(self) -> Task:
        return self.view.task

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (self.view.task,)


Row = RowGroup | TaskRow
Key = Task | str
"""Identity of a row, independent of its position: a task, or the name of a group."""


def arrange(views: Sequence[TaskView], query: FilterQuery, order: RowOrder, scene: Scene) -> list[Row]:
    """Return the rows from top to bottom. Groups stand in the order of their first task, the worst first."""
    selected = sorted_views([view for view in views if query.takes(view, scene)], order, scene)
    if not order.group:
        return [TaskRow(view) for view in selected]
    rows: list[Row] = []
    for name, members in _grouped(selected, column_named(order.group), scene).items():
        is_open = name not in order.closed
        rows.append(RowGroup(name, tuple(members), is_open))
        rows += [TaskRow(view) for view in members] if is_open else []
    return rows


def sorted_views(views: list[TaskView], order: RowOrder, scene: Scene) -> list[TaskView]:
    """Sort numbers from the largest and words from A, unknown values last. Equal rows keep their order."""
    if order.sort == "task":
        return views[::-1] if order.is_reversed else views
    column = column_named(order.sort)
    valued = [(_coarse(column.sorted_by(view, scene)), view) for view in views]
    valued_views: list[tuple[Any, TaskView]] = [(value, view) for value, view in valued if value is not None]
    from_top = bool(valued_views) and not isinstance(valued_views[0][0], str)
    valued_views.sort(key=lambda pair: pair[0], reverse=from_top != order.is_reversed)
    return [*(view for _, view in valued_views), *(view for value, view in valued if value is None)]


def _coarse(value: Value) -> Value:
    """Round to two digits, so that rows do not swap places because of noise."""
    return float(f"{value:.2g}") if isinstance(value, float) else value


def _grouped(views: Sequence[TaskView], column: Column, scene: Scene) -> dict[str, list[TaskView]]:
    groups: dict[str, list[TaskView]] = {}
    for view in views:
        groups.setdefault(str(column.value(view, scene)), []).append(view)
    return groups
