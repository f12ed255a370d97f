"""Layout of the task table's columns in the width that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.table.task_columns import USUAL, Column, Scene, column_named, columns_with

_GAP = 2
_SHORT_BAR = 10
"""Width below which a bar says little; flags are cut before it."""
_SHORT_FLAGS = 12
"""Width below which a flag says little: then a number of the task goes, which is often that of all."""
_LAST_TO_GO = ("time", "step")
_GOOD_BAR = 20
_WIDEST_BAR = 72
_GOOD_FLAGS = 20
"""Width below which other columns are left out first; so is `_GOOD_BAR`."""
_WIDEST_FLAGS = 40


@dataclass(frozen=True, slots=True)
class Placed:
    """A column and its width, in cells of the terminal."""

    column: Column
    width: int


def longest_texts(views: Sequence[TaskView], scene: Scene, groups: Sequence[str] | None = None) -> dict[str, int]:
    """Return the cells of the longest text in the columns whose width follows it; `groups` have names of their own."""
    names = [len(str(view.task)) for view in views]
    if groups is not None:
        names = [2 + width for width in (*names, *map(len, groups))]
    step = len(column_named("step").heading(scene))
    return {"task": max(names), "host": max(len(view.host) for view in views), "step": step}


def layout(width: int, chosen: Sequence[str], longest: Mapping[str, int], logs: Iterable[str] = ()) -> list[Placed]:
    """Return the chosen columns that fit into `width` cells, in order; the bar and the flags share the rest.

    `longest` has the cells of the longest text in some columns.
    """
    wide = {"task": max(4, longest.get("task", 0)), "host": min(24, max(4, longest.get("host", 0)))}
    columns = [column for column in columns_with(logs) if column.name in chosen or column.name == "task"]
    needs = {column.name: wide.get(column.name) or max(column.width, longest.get(column.name, 0)) for column in columns}
    fitting = _fitting(columns, needs, width)
    widths = {column.name: needs[column.name] for column in fitting}
    spare = width - sum(needed + _GAP for needed in widths.values()) + _GAP
    for name, share, widest in (("phases", 2 / 3, _WIDEST_BAR), ("flag", 1.0, _WIDEST_FLAGS)):
        if name in widths and spare > 0:
            grown = min(widest - widths[name], int(spare * share) if "flag" in widths else spare)
            widths[name] += grown
            spare -= grown
    for name, shortest in (("phases", _SHORT_BAR), ("flag", 1), ("phases", 1)):
        if name in widths and spare < 0:
            cut = max(0, min(widths[name] - shortest, -spare))
            widths[name] -= cut
            spare += cut
    return [Placed(column, widths[column.name]) for column in fitting]


def _fitting(columns: Sequence[Column], needs: dict[str, int], width: int) -> list[Column]:
    good = {**needs, "phases": _GOOD_BAR, "flag": _GOOD_FLAGS}
    fitting = list(columns)
    # A column that is not usual was chosen by the operator, or is what this cluster is about: usual ones go before it.
    can_go = [column for column in columns if column.drop]
    dropping = sorted(can_go, key=lambda column: (column.name in USUAL, column.drop))
    while dropping and sum(good[column.name] + _GAP for column in fitting) - _GAP > width:
        fitting.remove(dropping.pop())
    least = {**needs, "phases": _SHORT_BAR, "flag": _SHORT_FLAGS}
    for name in _LAST_TO_GO:
        if sum(least[column.name] + _GAP for column in fitting) - _GAP > width:
            fitting = [column for column in fitting if column.name != name]
    return fitting
