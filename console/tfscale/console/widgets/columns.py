"""The columns of the task table, and which of them a terminal of some width has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfscale.console.model import TaskView
from tfscale.console.widgets import format, words
from tfscale.console.widgets.look import Glyphs
from tfscale.core.records import HostSample

Cell = tuple[str, str]
"""Text, and a severity or `text` or `dim` for its colour."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `drop` is the order in which columns go as the terminal narrows, 0 for those that stay."""

    name: str
    width: int
    drop: int
    cell: Callable[[TaskView, float, Glyphs], Cell]
    right: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A column and the width that it has been given; `column` is None for the bar."""

    column: Column | None
    width: int


def _host(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    return view.host, "dim"


def _uptime(view: TaskView, now: float, _glyphs: Glyphs) -> Cell:
    started = view.status.started if view.status and view.is_up else None
    return format.duration(now - started if started else None), "dim"


def _attempt(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    status = view.status
    return (f"{status.generation}.{status.attempt}" if status else format.UNKNOWN), "dim"


def _step(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    summary = view.summary
    if summary is None:
        return format.UNKNOWN, "dim"
    step = summary.step if summary.global_step is None else summary.global_step
    return (
        f"{step:,}" if step is not None and step < 1_000_000 else format.UNKNOWN if step is None else f"{step}"
    ), "text"


def _time(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    return format.seconds(view.summary.step_time if view.summary else None), "text"


def _device(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    if view.frame is None:
        return format.UNKNOWN, "dim"
    used = [gpu.utilisation for gpu in view.frame.gpus if gpu.utilisation is not None]
    if used:
        return f"GPU {format.percent(sum(used) / len(used))}", "text"
    host = view.frame.host
    return (f"CPU {format.percent(host.cpu)}" if host and host.cpu is not None else format.UNKNOWN), "text"


def _memory(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    if view.frame is None:
        return format.UNKNOWN, "dim"
    on_gpus = [gpu.memory_used for gpu in view.frame.gpus if gpu.memory_used is not None]
    if on_gpus:
        return format.size(sum(on_gpus)), "text"
    usage = view.frame.host.task if view.frame.host else None
    return format.size(usage.memory if usage else None), "text"


def _received(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    return format.rate(traffic(view.frame.host if view.frame else None)[0]), "text"


def _sent(view: TaskView, _now: float, _glyphs: Glyphs) -> Cell:
    return format.rate(traffic(view.frame.host if view.frame else None)[1]), "text"


def traffic(host: HostSample | None) -> tuple[float | None, float | None]:
    """Bytes a second received and sent, over all interfaces; None where there are none."""
    if host is None or not host.interfaces:
        return None, None
    return sum(each.received for each in host.interfaces), sum(each.sent for each in host.interfaces)


def _state(view: TaskView, _now: float, glyphs: Glyphs) -> Cell:
    return words.state(view, glyphs)


def _flags(view: TaskView, now: float, glyphs: Glyphs) -> Cell:
    return words.flags(view, now, glyphs)


_GAP = 2
_NARROWEST_BAR = 13
_GOOD_BAR = 24
_WIDEST_BAR = 72
_FLAGS = 16
_GOOD_FLAGS = 20
"""Other columns go before the bar and the flags get narrower than is good."""
_WIDEST_FLAGS = 34


def layout(width: int, names: Sequence[str], hosts: Sequence[str]) -> list[Placed]:
    """The columns that fit into `width` cells, in order; the bar and the flags share what is left over."""
    task = max([4, *map(len, names)])
    host = min(24, max([4, *map(len, hosts)]))
    left = (
        Column("task", task, 0, lambda view, _now, _glyphs: (str(view.task), "text")),
        Column("host", host, 3, _host),
        Column("state", 13, 0, _state),
        Column("up", 9, 6, _uptime, right=True),
        Column("gen", 5, 7, _attempt, right=True),
        Column("step", 7, 0, _step, right=True),
        Column("time", 7, 0, _time, right=True),
    )
    right = (
        Column("device", 9, 1, _device, right=True),
        Column("memory", 8, 2, _memory, right=True),
        Column("received", 9, 4, _received, right=True),
        Column("sent", 9, 5, _sent, right=True),
    )
    kept = _fitting([*left, *right], width)
    fixed = sum(column.width + _GAP for column in kept)
    spare = max(0, width - fixed - _NARROWEST_BAR - _FLAGS - _GAP)
    bar = min(_WIDEST_BAR, _NARROWEST_BAR + spare * 2 // 3)
    flags = min(_WIDEST_FLAGS, max(1, width - fixed - bar - _GAP))
    bar = min(_WIDEST_BAR, max(1, width - fixed - flags - _GAP))
    return [
        *(Placed(column, column.width) for column in left if column in kept),
        Placed(None, bar),
        *(Placed(column, column.width) for column in right if column in kept),
        Placed(Column("", flags, 0, _flags), flags),
    ]


def _fitting(columns: Sequence[Column], width: int) -> list[Column]:
    kept = sorted(columns, key=lambda column: column.drop)
    while kept[-1].drop and sum(column.width + _GAP for column in kept) + _GOOD_BAR + _GAP + _GOOD_FLAGS > width:
        kept.pop()
    return kept
