"""Which tasks are shown, in which order and in which groups: what the table draws, worked out without drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfscale.console.engine.model import TaskView
from tfscale.console.widgets.columns import BY_NAME, Column, Scene, Value
from tfscale.console.widgets.query import Query
from tfscale.core.task import Task

GROUPINGS = ("", "host", "role")
"""What tasks can be put together by; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Order:
    """How rows are arranged."""

    sort: str = "task"
    is_reversed: bool = False
    group: str = ""
    closed: frozenset[str] = field(default_factory=frozenset)
    """The groups whose tasks are not shown."""


@dataclass(frozen=True, slots=True)
class Group:
    """The heading of tasks that share a host or a role."""

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
class Line:
    """The row of one task."""

    view: TaskView

    @property
    def key(self) -> Task:
        return self.view.task

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (self.view.task,)


Row = Group | Line
Key = Task | str
"""What a row is known by, wherever it stands."""


def arrange(views: Sequence[TaskView], query: Query, order: Order, scene: Scene) -> list[Row]:
    """The rows from top to bottom. Groups stand in the order of their first task, so that the worst comes first."""
    shown = sorted_views([view for view in views if query.takes(view, scene)], order, scene)
    if not order.group:
        return [Line(view) for view in shown]
    rows: list[Row] = []
    for name, members in _grouped(shown, BY_NAME[order.group], scene).items():
        is_open = name not in order.closed
        rows.append(Group(name, tuple(members), is_open))
        rows += [Line(view) for view in members] if is_open else []
    return rows


def sorted_views(views: list[TaskView], order: Order, scene: Scene) -> list[TaskView]:
    """Numbers from the largest, words from A; what is unknown last, either way. Equal ones stay in their order."""
    if order.sort == "task":
        return views[::-1] if order.is_reversed else views
    column = BY_NAME[order.sort]
    valued = [(_coarse(column.sorted_by(view, scene)), view) for view in views]
    known: list[tuple[Any, TaskView]] = [(value, view) for value, view in valued if value is not None]
    from_top = bool(known) and not isinstance(known[0][0], str)
    known.sort(key=lambda pair: pair[0], reverse=from_top != order.is_reversed)
    return [*(view for _, view in known), *(view for value, view in valued if value is None)]


def _coarse(value: Value) -> Value:
    """To two digits: rows that tremble cannot be read."""
    return float(f"{value:.2g}") if isinstance(value, float) else value


def _grouped(views: Sequence[TaskView], column: Column, scene: Scene) -> dict[str, list[TaskView]]:
    groups: dict[str, list[TaskView]] = {}
    for view in views:
        groups.setdefault(str(column.value(view, scene)), []).append(view)
    return groups
