"""The columns of the task table: what each says of a task, how it is sorted, filtered and summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from tfscale.console.engine.model import TaskView
from tfscale.console.widgets import format, words
from tfscale.console.widgets.look import Glyphs
from tfscale.core.analysis.findings import SEVERITIES
from tfscale.core.records import GpuSample, HostSample

Cell = tuple[str, str]
"""Text, and a severity or `text` or `dim` for its colour."""
Value = float | str | None
"""What a column is sorted and filtered by; None unknown."""


class Drawn(StrEnum):
    """What a cell is made of."""

    TEXT = "text"
    BAR = "bar"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class Scene:
    """What cells need to know beside their task."""

    now: float
    glyphs: Glyphs
    furthest: int | None = None
    """The newest step of anybody."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    about: str
    width: int
    value: Callable[[TaskView, Scene], Value]
    cell: Callable[[TaskView, Scene], Cell]
    drop: int = 0
    """The order in which columns go as the terminal narrows, the highest first; 0 for those that stay."""
    right: bool = False
    drawn: Drawn = Drawn.TEXT
    rank: Callable[[TaskView, Scene], Value] | None = None
    """What it is sorted by, where that is not the value."""
    unit: float = 1.0
    """What a number without a unit stands for in a filter."""
    total: Callable[[Sequence[float]], float] | None = None
    """Of a group of tasks."""
    shown: Callable[[float | None], str] = format.count

    def sorted_by(self, view: TaskView, scene: Scene) -> Value:
        return (self.rank or self.value)(view, scene)

    def of_group(self, views: Sequence[TaskView], scene: Scene) -> Cell:
        """The sum, mean or extreme of a group's tasks, where there is such a thing."""
        if self.total is None:
            return "", "dim"
        known = [value for view in views if isinstance(value := self.value(view, scene), int | float)]
        return self.shown(self.total(known) if known else None), "dim"


@dataclass(frozen=True, slots=True)
class Placed:
    """A column and the width that it has been given."""

    column: Column
    width: int


def _number(
    name: str,
    about: str,
    width: int,
    value: Callable[[TaskView, Scene], float | None],
    shown: Callable[[float | None], str],
    drop: int,
    *,
    unit: float = 1.0,
    total: Callable[[Sequence[float]], float] | None = fmean,
    tone: str = "text",
) -> Column:
    return Column(
        name,
        about,
        width,
        value,
        lambda view, scene: (shown(value(view, scene)), tone),
        drop,
        right=True,
        unit=unit,
        total=total,
        shown=shown,
    )


def _text(name: str, about: str, width: int, value: Callable[[TaskView], str], drop: int, tone: str = "dim") -> Column:
    return Column(name, about, width, lambda view, _: value(view), lambda view, _: (value(view), tone), drop)


def _of_summary(name: str) -> Callable[[TaskView, Scene], float | None]:
    return lambda view, _scene: getattr(view.summary, name) if view.summary else None


def _of_gpus(name: str, fold: Callable[[Sequence[float]], float]) -> Callable[[TaskView, Scene], float | None]:
    def value(view: TaskView, _scene: Scene) -> float | None:
        gpus: tuple[GpuSample, ...] = view.frame.gpus if view.frame else ()
        known = [each for gpu in gpus if (each := getattr(gpu, name)) is not None]
        return fold(known) if known else None

    return value


def _uptime(view: TaskView, scene: Scene) -> float | None:
    started = view.status.started if view.status and view.is_up else None
    return scene.now - started if started else None


def step_of(view: TaskView) -> int | None:
    """The newest step of a task, as its program counts where it does."""
    summary = view.summary
    if summary is None:
        return None
    return summary.step if summary.global_step is None else summary.global_step


def _step(view: TaskView, _scene: Scene) -> float | None:
    return step_of(view)


def _shown_step(value: float | None) -> str:
    return format.UNKNOWN if value is None else f"{value:,.0f}" if value < 1_000_000 else f"{value:.0f}"


def _behind(view: TaskView, scene: Scene) -> float | None:
    step = step_of(view)
    return None if step is None or scene.furthest is None else scene.furthest - step


def _transfer(view: TaskView, _scene: Scene) -> float | None:
    summary = view.summary
    if summary is None or summary.reduce is None or summary.wait is None:
        return None
    return max(0.0, summary.reduce - summary.wait)


_gpu_use = _of_gpus("utilisation", fmean)
_gpu_memory = _of_gpus("memory_used", sum)


def _cpu(view: TaskView, _scene: Scene) -> float | None:
    return view.frame.host.cpu if view.frame and view.frame.host else None


def _in_use(view: TaskView, scene: Scene) -> float | None:
    use = _gpu_use(view, scene)
    return _cpu(view, scene) if use is None else use


def _device(view: TaskView, scene: Scene) -> Cell:
    use = _in_use(view, scene)
    if use is None:
        return format.UNKNOWN, "dim"
    return f"{'CPU' if _gpu_use(view, scene) is None else 'GPU'} {format.percent(use)}", "text"


def _memory(view: TaskView, scene: Scene) -> float | None:
    on_gpus = _gpu_memory(view, scene)
    usage = view.frame.host.task if view.frame and view.frame.host else None
    return (usage.memory if usage else None) if on_gpus is None else on_gpus


def traffic(host: HostSample | None) -> tuple[float | None, float | None]:
    """Bytes a second received and sent, over all interfaces; None where there are none."""
    if host is None or not host.interfaces:
        return None, None
    return sum(each.received for each in host.interfaces), sum(each.sent for each in host.interfaces)


def _received(view: TaskView, _scene: Scene) -> float | None:
    return traffic(view.frame.host if view.frame else None)[0]


def _sent(view: TaskView, _scene: Scene) -> float | None:
    return traffic(view.frame.host if view.frame else None)[1]


def _loss(view: TaskView, _scene: Scene) -> float | None:
    return view.frame.training.loss if view.frame and view.frame.training else None


def _shown_loss(value: float | None) -> str:
    return format.UNKNOWN if value is None else f"{value:.4g}"


def _times(value: float | None) -> str:
    return format.UNKNOWN if value is None else f"{value:.2f}"


def _attempt(view: TaskView) -> str:
    status = view.status
    return f"{status.generation}.{status.attempt}" if status else format.UNKNOWN


def _state_value(view: TaskView, scene: Scene) -> str:
    said = words.state(view, scene.glyphs)[0].partition(" ")[2]
    return f"{said} {view.status.state}" if view.status and not view.is_stale else said


def _state_rank(view: TaskView, scene: Scene) -> str:
    said, severity = words.state(view, scene.glyphs)
    return f"{9 - _RANKS.index(severity)} {said}"


_RANKS = ("good", *SEVERITIES)


def _flag_value(view: TaskView, scene: Scene) -> str:
    said = words.flags(view, scene.now, scene.glyphs)[0]
    return " ".join([said, *(each.kind for each in view.diagnoses)])


def _flag_rank(view: TaskView, scene: Scene) -> int:
    """The most severe first, and of those and of all others the slowest, to a tenth."""
    said, severity = words.flags(view, scene.now, scene.glyphs)
    ratio = (view.summary.ratio if view.summary else None) or 0.0
    return (_RANKS.index(severity) * 1000 if said else 0) + min(999, round(10 * ratio))


def _nothing(_view: TaskView, _scene: Scene) -> Cell:
    return "", "dim"


COLUMNS: tuple[Column, ...] = (
    Column(
        "task", "role and index", 8, lambda view, _: str(view.task), lambda view, _: (str(view.task), "text")
    ),
    _text("role", "chief, worker, ps, evaluator", 9, lambda view: str(view.task.role), 14),
    _text("host", "the host that it runs on", 8, lambda view: view.host, 4),
    Column(
        "state", "running, exited, ...", 13, _state_value, lambda view, scene: words.state(view, scene.glyphs),
        rank=_state_rank,
    ),
    _number("up", "since it was started", 9, _uptime, format.duration, 8, total=min, tone="dim"),
    _text("gen", "generation and attempt", 5, _attempt, 9),
    _number("step", "the newest step", 7, _step, _shown_step, 0, total=max),
    _number("behind", "steps behind the furthest", 6, _behind, _shown_step, 13, total=max),
    _number("time", "one step", 7, _of_summary("step_time"), format.seconds, 0, unit=1e-3),
    Column(
        "phases", "one step as a bar, all on one scale", 13, _of_summary("step_time"), _nothing, drawn=Drawn.BAR,
        unit=1e-3,
    ),
    Column(
        "trend", "the step time of the last minute", 16, _of_summary("step_time"), _nothing, 1,
        drawn=Drawn.TREND, unit=1e-3,
    ),
    _number("lag", "one step without the all-reduce", 7, _of_summary("lag"), format.seconds, 10, unit=1e-3, total=max),
    _number("ratio", "lag over its peers'", 5, _of_summary("ratio"), _times, 10, total=max),
    _number("wait", "lost waiting for somebody slower", 7, _of_summary("wait"), format.seconds, 10, unit=1e-3),
    _number("transfer", "the all-reduce itself", 8, _transfer, format.seconds, 12, unit=1e-3),
    Column(
        "device", "GPU in use, else CPU", 9, _in_use, _device, 2, right=True, unit=0.01, total=fmean,
        shown=format.percent,
    ),
    _number("gpu", "GPUs in use", 5, _gpu_use, format.percent, 11, unit=0.01),
    _number("cpu", "the host's CPUs in use", 5, _cpu, format.percent, 11, unit=0.01),
    _number("memory", "of the GPUs, else of the process", 8, _memory, format.size, 3, unit=1e9, total=sum),
    _number("heat", "the hottest GPU", 6, _of_gpus("temperature", max), format.celsius, 11, total=max),
    _number("power", "of its GPUs", 7, _of_gpus("power", sum), format.watts, 12, total=sum),
    _number("clock", "the slowest GPU's", 8, _of_gpus("clock", min), format.hertz, 12, unit=1e6, total=min),
    _number("received", "over all interfaces", 9, _received, format.rate, 5, unit=1e6, total=sum),
    _number("sent", "over all interfaces", 9, _sent, format.rate, 6, unit=1e6, total=sum),
    _number("loss", "of its newest step", 7, _loss, _shown_loss, 13),
    Column(
        "flag", "what is wrong with it", 16, _flag_value,
        lambda view, scene: words.flags(view, scene.now, scene.glyphs), rank=_flag_rank,
    ),
)  # fmt: skip
BY_NAME = {column.name: column for column in COLUMNS}
USUAL = (
    "task", "host", "state", "up", "gen", "step", "time", "phases", "trend", "device", "memory", "received", "sent",
    "flag",
)  # fmt: skip
"""What is shown until something else is chosen."""


_GAP = 2
_SHORT_BAR = 10
"""Cells below which a bar says little; flags are cut before."""
_GOOD_BAR = 20
_WIDEST_BAR = 72
_GOOD_FLAGS = 20
"""Other columns go before the bar and the flags get narrower than is good."""
_WIDEST_FLAGS = 40


def layout(width: int, chosen: Sequence[str], names: Sequence[str], hosts: Sequence[str]) -> list[Placed]:
    """Those of the chosen columns that fit into `width` cells, in order; the bar and the flags share what is left."""
    wide = {"task": max([4, *map(len, names)]), "host": min(24, max([4, *map(len, hosts)]))}
    columns = [column for column in COLUMNS if column.name in chosen or column.name == "task"]
    needs = {column.name: wide.get(column.name, column.width) for column in columns}
    kept = _fitting(columns, needs, width)
    widths = {column.name: needs[column.name] for column in kept}
    spare = width - sum(each + _GAP for each in widths.values()) + _GAP
    for name, share, widest in (("phases", 2 / 3, _WIDEST_BAR), ("flag", 1.0, _WIDEST_FLAGS)):
        if name in widths and spare > 0:
            grown = min(widest - widths[name], int(spare * share) if "flag" in widths else spare)
            widths[name] += grown
            spare -= grown
    for name, least in (("phases", _SHORT_BAR), ("flag", 1), ("phases", 1)):
        if name in widths and spare < 0:
            cut = max(0, min(widths[name] - least, -spare))
            widths[name] -= cut
            spare += cut
    return [Placed(column, widths[column.name]) for column in kept]


def _fitting(columns: Sequence[Column], needs: dict[str, int], width: int) -> list[Column]:
    good = {**needs, "phases": _GOOD_BAR, "flag": _GOOD_FLAGS}
    kept = list(columns)
    # What was asked for beyond the usual ones is wanted more than they are.
    dropping = sorted((each for each in columns if each.drop), key=lambda each: (each.name in USUAL, each.drop))
    while dropping and sum(good[column.name] + _GAP for column in kept) - _GAP > width:
        kept.remove(dropping.pop())
    return kept
