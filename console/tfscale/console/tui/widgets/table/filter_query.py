"""Filter language of the task table: `host:gpu07 state:running !flag:straggler step>100 time>80ms`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.table.task_columns import Column, Drawn, Scene, Value, columns_with
from tfscale.core.cluster.task import Role
from tfscale.core.errors import UsageError

_TERM = re.compile(r"(?P<column>[a-z][a-z0-9_]*)(?P<sign>>=|<=|[:=><])(?P<value>.*)")
_NUMBER = re.compile(r"(?P<digits>-?\d[\d,]*\.?\d*|-?\.\d+)(?P<unit>[a-z%°]*)")
_UNITS: Mapping[str, float] = {
    "%": 0.01, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "mhz": 1e6, "ghz": 1e9, "w": 1.0, "c": 1.0, "°c": 1.0,
}  # fmt: skip
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}
_PLAIN = ("task", "host", "state", "flag")
"""Columns searched by a word that names no column."""

Test = Callable[[TaskView, Scene], bool]


@dataclass(frozen=True, slots=True)
class FilterQuery:
    """Parsed filter: all of its terms must hold."""

    tests: tuple[Test, ...] = ()

    def takes(self, view: TaskView, scene: Scene) -> bool:
        return all(test(view, scene) for test in self.tests)


def parse(text: str, logs: Iterable[str] = ()) -> FilterQuery:
    """Parse a filter. `logs` are Keras's, which have columns. Raises UsageError with one line about the fault."""
    columns = {column.name.lower(): column for column in columns_with(logs)}
    return FilterQuery(tuple(_test(term, columns) for term in text.lower().split()))


def _test(term: str, columns: Mapping[str, Column]) -> Test:
    if term.startswith("!") and len(term) > 1:
        inner = _test(term[1:], columns)
        return lambda view, scene: not inner(view, scene)
    match = _TERM.fullmatch(term)
    if match is None or match["column"] in (*Role, "master"):
        return lambda view, scene: any(term in _content(columns[name], view, scene) for name in _PLAIN)
    column = columns.get(match["column"])
    if column is None:
        raise UsageError(
            f"there is no column {match['column']!r}: use one of {', '.join(_filterable(columns.values()))}"
        )
    return _compared(column, match["sign"], match["value"])


def filterable(logs: Iterable[str] = ()) -> list[str]:
    """Return the names of the columns with which a term can begin."""
    return _filterable(columns_with(logs))


def _filterable(columns: Iterable[Column]) -> list[str]:
    return [column.name.lower() for column in columns if column.drawn is Drawn.TEXT]


def _compared(column: Column, sign: str, words: str) -> Test:
    if not words:
        raise UsageError(f"{column.name}{sign} what? for example {_example(column)}")
    if sign == ":" or (sign == "=" and not _is_number(column)):
        return _containing(column, words, whole=sign == "=")
    if not _is_number(column):
        raise UsageError(f"{column.name} is no number: write {_example(column)}")
    limit, compare = _amount(column, words), _SIGNS[sign]

    def holds(view: TaskView, scene: Scene) -> bool:
        value = column.value(view, scene)
        return isinstance(value, int | float) and compare(value, limit)

    return holds


def _containing(column: Column, words: str, *, whole: bool) -> Test:
    def holds(view: TaskView, scene: Scene) -> bool:
        content = _content(column, view, scene)
        return words == content if whole else words in content

    return holds


def _amount(column: Column, words: str) -> float:
    match = _NUMBER.fullmatch(words.removesuffix("/s"))
    unit = _UNITS.get(match["unit"]) if match and match["unit"] else column.unit
    if match is None or unit is None or not math.isfinite(value := float(match["digits"].replace(",", "")) * unit):
        raise UsageError(f"{words!r} is no number for {column.name}: write for example {_example(column)}")
    return value


def _is_number(column: Column) -> bool:
    return column.right


def _content(column: Column, view: TaskView, scene: Scene) -> str:
    value: Value = column.value(view, scene)
    return (value if isinstance(value, str) else column.cell(view, scene)[0]).lower()


_EXAMPLES: Mapping[float, str] = {1e-3: "80ms", 0.01: "90%", 1e9: "10GB", 1e6: "100"}


def _example(column: Column) -> str:
    if not _is_number(column):
        words = {"host": "gpu07", "state": "running", "flag": "straggler", "gen": "2.1"}
        return f"{column.name}:{words.get(column.name, 'worker')}"
    return f"{column.name}>{_EXAMPLES.get(column.unit, '100')}"
