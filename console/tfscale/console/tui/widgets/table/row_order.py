"""Rows of the task table, their order and their groups, without any drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.table.filter_query import FilterQuery
from tfscale.console.tui.widgets.table.task_columns import Column, Scene, column_named
from tfscale.core.cluster.task import Task

USUAL_SORT = "flag"
"""Column by which rows are sorted before the operator chooses: the culprits first, then by name."""
_CLEARLY = 1.05
"""Factor between two numbers from which on they change the order of rows: less is noise."""
GROUPINGS = ("", "host", "role")
"""Properties by which tasks can be grouped; empty: no groups."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Sort column, direction and grouping of the rows."""

    sort: str = USUAL_SORT
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


def arrange(
    views: Sequence[TaskView],
    query: FilterQuery,
    order: RowOrder,
    scene: Scene,
    before: Mapping[Task, int] | None = None,
) -> list[Row]:
    """Return the rows from top to bottom. Groups stand in the order of their first task, the worst first.

    `before` is the place of each task in the same order a moment ago.
    """
    selected = sorted_views([view for view in views if query.takes(view, scene)], order, scene, before or {})
    if not order.group:
        return [TaskRow(view) for view in selected]
    rows: list[Row] = []
    for name, members in _grouped(selected, column_named(order.group), scene).items():
        is_open = name not in order.closed
        rows.append(RowGroup(name, tuple(members), is_open))
        rows += [TaskRow(view) for view in members] if is_open else []
    return rows


def is_by_number(order: RowOrder) -> bool:
    """Decide whether rows may be sorted by a number that trembles."""
    return order.sort != "task" and column_named(order.sort).rank is None


def sorted_views(views: list[TaskView], order: RowOrder, scene: Scene, before: Mapping[Task, int]) -> list[TaskView]:
    """Sort numbers from the largest and words from A, unknown values last. Equal rows keep the order of the cluster.

    A row leaves its place of `before` only for numbers that differ clearly.
    """
    if order.sort == "task":
        return views[::-1] if order.is_reversed else views
    column = column_named(order.sort)
    valued = [(column.sorted_by(view, scene), view) for view in views]
    known: list[tuple[Any, TaskView]] = [(value, view) for value, view in valued if value is not None]
    from_top = bool(known) and not isinstance(known[0][0], str)
    known.sort(key=lambda pair: pair[0], reverse=from_top != order.is_reversed)
    if before and from_top and is_by_number(order):
        known.sort(key=lambda pair: before.get(pair[1].task, len(before)))
        _move_clearly(known, is_rising=order.is_reversed)
    return [*(view for _, view in known), *(view for value, view in valued if value is None)]


def _move_clearly(rows: list[tuple[float, TaskView]], *, is_rising: bool) -> None:
    """Move each row up past all rows that it differs from clearly."""
    for index, row in enumerate(rows):
        place = index
        while place and _is_clearly_above(row[0], rows[place - 1][0], is_rising=is_rising):
            place -= 1
        if place < index:
            rows.insert(place, rows.pop(index))


def _is_clearly_above(one: float, other: float, *, is_rising: bool) -> bool:
    larger, smaller = (other, one) if is_rising else (one, other)
    return larger > smaller and (smaller <= 0 or larger >= _CLEARLY * smaller)


def _grouped(views: Sequence[TaskView], column: Column, scene: Scene) -> dict[str, list[TaskView]]:
    groups: dict[str, list[TaskView]] = {}
    for view in views:
        groups.setdefault(str(column.value(view, scene)), []).append(view)
    return groups
