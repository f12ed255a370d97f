"""Measurements of other tools: a CSV file with one row a step and worker, read as columns of steps.

Needs `step`, `worker`, `input_s`, `compute_s`, `reduce_s` and `update_s`, in seconds and in any order; `host_s` and
`group` are optional, other columns are ignored. An empty cell is unknown. Workers of one group do equal work and meet
in the same collective.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records.step_batch import PHASES

NEEDED = ("step", "worker", "input_s", "compute_s", "reduce_s", "update_s")
OPTIONAL = ("host_s", "group")


class CsvError(UsageError):
    """File that lacks what a report needs; the message names the line."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """Steps of one group: k steps of n workers."""

    group: str
    """Empty where the file has no groups."""
    workers: tuple[Task, ...]
    step: NDArray[np.int64]
    """(k,) numbers of the steps in the file, rising."""
    phases: NDArray[np.float32]
    """(5, k, n) seconds in the order of PHASES, NaN unknown."""

    end: NDArray[np.float64]
    """(k,) end of each step, in seconds from the beginning of the first."""


def read_csv(path: Path) -> tuple[MeasuredGroup, ...]:
    """Return the groups of a file in their order. Raises CsvError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return tuple(_measured(path, _CsvRows(path, csv.reader(file))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CsvError(f"{path}: cannot be read: {reason}") from None


@dataclass(frozen=True, slots=True)
class _CsvRow:
    group: str
    worker: Task
    step: int
    phases: tuple[float, ...]


class _CsvRows:
    """Checked rows of a file; every error names the file and the line."""

    def __init__(self, path: Path, reader: Iterator[list[str]]) -> None:
        self._path, self._reader = path, reader
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in NEEDED if name not in header]
        if missing:
            present = ", ".join(name for name in header if name) or "nothing"
            raise CsvError(f"{path}: the first line must name the columns {', '.join(NEEDED)}; it has {present}")
        twice = sorted({name for name in (*NEEDED, *OPTIONAL) if header.count(name) > 1})
        if twice:
            raise CsvError(f"{path}: column {twice[0]} is there twice")
        self._columns = {name: header.index(name) for name in (*NEEDED, *OPTIONAL) if name in header}
        self._width = len(header)

    def __iter__(self) -> Iterator[_CsvRow]:
        for number, cells in enumerate(self._reader, start=2):
            if any(cell.strip() for cell in cells):
                yield self._row(number, cells)

    def _row(self, number: int, cells: Sequence[str]) -> _CsvRow:
        place = f"{self._path}: line {number}"
        if len(cells) != self._width:
            raise CsvError(f"{place}: has {len(cells)} cells, the first line has {self._width}")
        named = {name: cells[position].strip() for name, position in self._columns.items()}
        return _CsvRow(
            group=named.get("group", ""),
            worker=_worker(place, named["worker"]),
            step=_step(place, named["step"]),
            phases=tuple(_seconds(place, f"{phase}_s", named) for phase in PHASES),
        )


def _measured(path: Path, rows: Iterable[_CsvRow]) -> Iterator[MeasuredGroup]:
    groups: dict[str, list[_CsvRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    if not groups:
        raise CsvError(f"{path}: has no rows below its first line: there is nothing to report")
    for name, members in groups.items():
        yield _grid(path, name, members)


def _grid(path: Path, name: str, rows: Sequence[_CsvRow]) -> MeasuredGroup:
    workers = tuple(sorted({row.worker for row in rows}))
    steps = np.unique([row.step for row in rows])
    column = {worker: position for position, worker in enumerate(workers)}
    at = np.searchsorted(steps, [row.step for row in rows])
    phases = np.full((len(PHASES), len(steps), len(workers)), np.nan, np.float32)
    has_row = np.zeros(phases.shape[1:], bool)
    for row, position in zip(rows, at, strict=True):
        cell = (int(position), column[row.worker])
        if has_row[cell]:
            group = f" of group {name}" if name else ""
            raise CsvError(f"{path}: step {row.step} of {row.worker}{group} is there twice: tell them apart by `group`")
        has_row[cell] = True
        phases[:, *cell] = row.phases
    return MeasuredGroup(name, workers, steps, phases, _ends(phases))


def _ends(phases: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the ends of the steps laid end to end; each lasts as long as for the median worker."""
    lengths = np.nansum(phases.astype(np.float64), axis=0)
    return np.asarray(np.cumsum(np.median(lengths, axis=1)))


def _worker(place: str, text: str) -> Task:
    try:
        return Task(Role.WORKER, int(text)) if re.fullmatch(r"\d+", text) else Task.parse(text)
    except UsageError:
        raise CsvError(f"{place}: worker {text!r} is neither a number nor role:index, as 3 or worker:3") from None


def _step(place: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise CsvError(f"{place}: step {text!r} is not a whole number from 0 on")
    return int(text)


def _seconds(place: str, name: str, cells: Mapping[str, str]) -> float:
    """Return a duration; 0 without such a column, NaN where the cell is empty."""
    text = cells.get(name, "0")
    try:
        value = float(text) if text else math.nan
    except ValueError:
        raise CsvError(f"{place}: {name} is {text!r}, not a number of seconds") from None
    if value < 0 or math.isinf(value):
        raise CsvError(f"{place}: {name} is {text}: a duration is finite and not negative")
    return value
