"""Columns of the task table: value and cell of each, and its sorting, filtering and summing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter
from statistics import fmean, median, mode

from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.appearance.state_text import flag_text, state_text
from tfscale.console.tui.widgets.appearance.theme import Glyphs
from tfscale.console.tui.widgets.table.culprits import has_trouble
from tfscale.console.tui.widgets.task_readings import (
    disk_of,
    gpus_of,
    host_cpu,
    host_of,
    newest_step,
    over_gpus,
    summary_value,
    traffic,
    training_number,
)
from tfscale.core.cluster.task import Task
from tfscale.core.records.training import TRAINING_DISPLAYS, display_of
from tfscale.core.text import (
    UNKNOWN,
    celsius,
    count,
    data_rate,
    data_size,
    displayed,
    elapsed,
    megahertz,
    percent,
    ratio,
    step_time,
    watts,
)

Cell = tuple[str, str]
"""Text, and the name of its colour: a severity, `text` or `dim`."""
Value = float | str | None
"""Value by which a column is sorted and filtered; None unknown."""


_ALIKE = 0.1
"""Share of a device's time up to which two uses are alike."""
_SAMPLE = 64
"""Tasks of which the usual use of a device is taken, at most: a thousand would take longer than the drawing."""
_WIDEST_NUMBER = 24
"""Largest width of a number's column, whose name may be longer."""


class Drawn(StrEnum):
    """Way in which a cell is drawn."""

    TEXT = "text"
    BAR = "bar"
    TREND = "trend"


@dataclass(frozen=True, slots=True)
class Scene:
    """Context of all cells of one drawing."""

    now: float
    glyphs: Glyphs
    furthest: int | None = None
    """The newest step of all tasks."""
    named: frozenset[Task] = frozenset()
    """Tasks that the top line blames."""
    steps_apart: float = 0.0
    """Steps by which tasks in step may seem apart, since their agents report at different moments."""
    still: Stillness | None = None
    """The present time without a step, if it is known who waits or is missing."""
    device: tuple[str, float] | None = None
    """Kind and use, 0 to 1, of the usual task's device."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    name: str
    description: str
    width: int
    value: Callable[[TaskView, Scene], Value]
    cell: Callable[[TaskView, Scene], Cell]
    drop: int = 0
    """Rank by which columns are left out as the terminal narrows, the highest first; 0 is never left out."""
    right: bool = False
    drawn: Drawn = Drawn.TEXT
    rank: Callable[[TaskView, Scene], Value] | None = None
    """Value by which the column is sorted; None: `value`."""
    unit: float = 1.0
    """Factor of a number without a unit in a filter."""
    total: Callable[[Sequence[float]], float] | None = None
    """Function that combines the values of a group of tasks; without one the group's cell is empty."""
    format_value: Callable[[float | None], str] = count
    usual: Callable[[Scene], str] | None = None
    """Function that returns what most rows share, so that the heading says it once for all."""

    def heading(self, scene: Scene) -> str:
        return (self.usual(scene) if self.usual else "") or self.name

    def sorted_by(self, view: TaskView, scene: Scene) -> Value:
        return (self.rank or self.value)(view, scene)

    def of_group(self, views: Sequence[TaskView], scene: Scene) -> Cell:
        """Return the cell of a group: the sum, mean or extreme of its tasks."""
        if self.total is None:
            return "", "dim"
        values = [value for view in views if isinstance(value := self.value(view, scene), int | float)]
        return self.format_value(self.total(values) if values else None), "dim"


def _number(
    name: str,
    description: str,
    width: int,
    value: Callable[[TaskView, Scene], float | None],
    format_value: Callable[[float | None], str],
    drop: int,
    *,
    unit: float = 1.0,
    total: Callable[[Sequence[float]], float] | None = fmean,
    tone: str = "text",
) -> Column:
    return Column(
        name,
        description,
        width,
        value,
        lambda view, scene: (format_value(value(view, scene)), tone),
        drop,
        right=True,
        unit=unit,
        total=total,
        format_value=format_value,
    )


def _text(
    name: str, description: str, width: int, value: Callable[[TaskView], str], drop: int, tone: str = "dim"
) -> Column:
    return Column(name, description, width, lambda view, _: value(view), lambda view, _: (value(view), tone), drop)


def _of_view(read: Callable[[TaskView], float | None]) -> Callable[[TaskView, Scene], float | None]:
    return lambda view, _scene: read(view)


def _of_summary(name: str) -> Callable[[TaskView, Scene], float | None]:
    return _of_view(lambda view: summary_value(view, name))


def _of_gpus(name: str, combine: Callable[[Sequence[float]], float]) -> Callable[[TaskView, Scene], float | None]:
    return _of_view(lambda view: over_gpus(gpus_of(view), attrgetter(name), combine))


def _of_disk(name: str) -> Callable[[TaskView, Scene], float | None]:
    return _of_view(lambda view: getattr(disk_of(view), name, None))


def _uptime(view: TaskView, scene: Scene) -> float | None:
    started = view.status.started if view.status and view.is_up else None
    return scene.now - started if started else None


def _shown_step(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if value < 1_000_000 else f"{value:.0f}"


def _behind(view: TaskView, scene: Scene) -> float | None:
    step = newest_step(view)
    return None if step is None or scene.furthest is None else scene.furthest - step


def _transfer(view: TaskView, _scene: Scene) -> float | None:
    summary = view.summary
    if summary is None or summary.reduce is None or summary.wait is None:
        return None
    return max(0.0, summary.reduce - summary.wait)


def _staleness(view: TaskView, _scene: Scene) -> float | None:
    stale = view.summary.staleness if view.summary else None
    return stale.mean if stale else None


_gpu_use = _of_gpus("utilisation", fmean)
_gpu_memory = _of_gpus("memory_used", sum)
_received = _of_view(lambda view: traffic(host_of(view))[0])
_sent = _of_view(lambda view: traffic(host_of(view))[1])


def _in_use(view: TaskView, scene: Scene) -> float | None:
    use = _gpu_use(view, scene)
    return host_cpu(view) if use is None else use


def _step(view: TaskView, scene: Scene) -> Cell:
    """Return how far a running task is behind all others; of another task the step that it has come to."""
    step = newest_step(view)
    if step is None or scene.furthest is None:
        return UNKNOWN, "dim"
    behind = scene.furthest - step
    if not view.is_up:
        return _shown_step(step) if behind else "", "dim"
    return (f"-{_shown_step(behind)}", "text") if behind > scene.steps_apart else ("", "dim")


def _kind(view: TaskView, scene: Scene) -> str:
    return "CPU" if _gpu_use(view, scene) is None else "GPU"


def _device(view: TaskView, scene: Scene) -> Cell:
    use = _in_use(view, scene)
    if use is None:
        return UNKNOWN, "dim"
    kind = _kind(view, scene)
    if scene.device is not None and kind == scene.device[0] and abs(use - scene.device[1]) < _ALIKE:
        return "", "dim"
    return f"{kind} {percent(use)}", "text"


def _usual_device(scene: Scene) -> str:
    return f"{scene.device[0]} {percent(scene.device[1])}" if scene.device else ""


def usual_device(views: Sequence[TaskView], scene: Scene) -> tuple[str, float] | None:
    """Return kind and median use of the devices of a sample of the tasks; None where none is known."""
    sample = views[:: -(-len(views) // _SAMPLE) or 1]
    used = [(_kind(view, scene), use) for view in sample if view.is_up and (use := _in_use(view, scene)) is not None]
    if not used:
        return None
    kind = mode(kind for kind, _ in used)
    return kind, median(use for each, use in used if each == kind)


def _memory(view: TaskView, scene: Scene) -> float | None:
    on_gpus = _gpu_memory(view, scene)
    host = host_of(view)
    usage = host.task if host else None
    return (usage.memory if usage else None) if on_gpus is None else on_gpus


@cache
def _of_training(name: str) -> Column:
    value, display = _of_view(lambda view: training_number(view, name)), display_of(name)
    width = min(_WIDEST_NUMBER, max(9, len(name)))
    return _number(name, display.about, width, value, partial(displayed, display=display), 13)


def _attempt(view: TaskView) -> str:
    status = view.status
    return f"{status.generation}.{status.attempt}" if status else UNKNOWN


def _state_value(view: TaskView, scene: Scene) -> str:
    text = state_text(view, scene.glyphs)[0].partition(" ")[2]
    return f"{text} {view.status.state}" if view.status and not view.is_stale else text


def _state_rank(view: TaskView, scene: Scene) -> str:
    text, severity = state_text(view, scene.glyphs)
    return f"{9 - _RANKS.index(severity)} {text}"


_RANKS = ("good", *SEVERITIES)


def _flag_value(view: TaskView, scene: Scene) -> str:
    text = flag_text(view, scene.now, scene.glyphs)[0]
    return " ".join([text, *(diagnosis.kind for diagnosis in view.diagnoses)])


def _flag_rank(view: TaskView, scene: Scene) -> int:
    """Return a rank of whoever the top line blames, then of all others with trouble.

    Neither severity nor ratio counts: both tremble, and rows would change places.
    """
    if not has_trouble(view):
        return 0
    return 2 if view.task in scene.named else 1


def _nothing(_view: TaskView, _scene: Scene) -> Cell:
    return "", "dim"


COLUMNS: tuple[Column, ...] = (
    Column(
        "task", "role and index", 8, lambda view, _: str(view.task), lambda view, _: (str(view.task), "text")
    ),
    _text("role", "chief, worker, ps, evaluator", 9, lambda view: str(view.task.role), 14),
    _text("host", "the host that it runs on", 8, lambda view: view.host, 4),
    Column(
        "state", "running, exited, ...", 13, _state_value, lambda view, scene: state_text(view, scene.glyphs),
        rank=_state_rank,
    ),
    _number("up", "since it was started", 9, _uptime, elapsed, 8, total=min, tone="dim"),
    _text("gen", "generation and attempt", 5, _attempt, 9),
    Column(
        "step", "the newest step; steps behind it", 7, _of_view(newest_step), _step, right=True, total=max,
        format_value=_shown_step,
        usual=lambda scene: "" if scene.furthest is None else f"step {_shown_step(scene.furthest)}",
    ),
    _number("behind", "steps behind the furthest", 6, _behind, _shown_step, 13, total=max),
    _number("time", "one step", 7, _of_summary("step_time"), step_time, 0, unit=1e-3),
    Column(
        "phases", "one step as a bar, all on one scale", 13, _of_summary("step_time"), _nothing, drawn=Drawn.BAR,
        unit=1e-3,
    ),
    Column(
        "trend", "the lag of the last minute", 16, _of_summary("lag"), _nothing, 1,
        drawn=Drawn.TREND, unit=1e-3, usual=lambda _: "lag, last minute",
    ),
    _number("lag", "one step without the all-reduce", 7, _of_summary("lag"), step_time, 10, unit=1e-3, total=max),
    _number("ratio", "lag over its peers'", 5, _of_summary("ratio"), ratio, 10, total=max),
    _number("wait", "lost waiting for somebody slower", 7, _of_summary("wait"), step_time, 10, unit=1e-3),
    _number("transfer", "the all-reduce itself", 8, _transfer, step_time, 12, unit=1e-3),
    _number("stale", "updates by others, pull to push", 5, _staleness, ratio, 12),
    Column(
        "device", "GPU in use, else CPU", 9, _in_use, _device, 2, right=True, unit=0.01, total=fmean,
        format_value=percent, usual=_usual_device,
    ),
    _number("gpu", "GPUs in use", 5, _gpu_use, percent, 11, unit=0.01),
    _number("cpu", "the host's CPUs in use", 5, _of_view(host_cpu), percent, 11, unit=0.01),
    _number("memory", "of the GPUs, else of the process", 8, _memory, data_size, 3, unit=1e9, total=sum),
    _number("heat", "the hottest GPU", 6, _of_gpus("temperature", max), celsius, 11, total=max),
    _number("power", "of its GPUs", 7, _of_gpus("power", sum), watts, 12, total=sum),
    _number("clock", "the slowest GPU's", 8, _of_gpus("clock", min), megahertz, 12, unit=1e6, total=min),
    _number(
        "memory_busy", "time in which GPU memory was accessed", 11, _of_gpus("memory_utilisation", fmean), percent, 12,
        unit=0.01,
    ),
    _number(
        "pcie_received", "by its GPUs", 13, _of_gpus("pcie_received", sum), data_rate, 12, unit=1e6, total=sum
    ),
    _number("pcie_sent", "by its GPUs", 9, _of_gpus("pcie_sent", sum), data_rate, 12, unit=1e6, total=sum),
    _number("nvlinks_up", "of the GPU with the fewest", 10, _of_gpus("nvlinks_up", min), count, 12, total=min),
    _number("nvlink_errors", "of its GPUs", 13, _of_gpus("nvlink_errors", sum), count, 12, total=sum),
    _number("received", "over all interfaces", 9, _received, data_rate, 5, unit=1e6, total=sum),
    _number("sent", "over all interfaces", 9, _sent, data_rate, 6, unit=1e6, total=sum),
    _number("disk_read", "from the working folder's disk", 9, _of_disk("read"), data_rate, 12, unit=1e6, total=sum),
    _number(
        "disk_written", "to the working folder's disk", 12, _of_disk("written"), data_rate, 12, unit=1e6, total=sum
    ),
    _number("disk_free", "space on the working folder's disk", 9, _of_disk("free"), data_size, 12, unit=1e9, total=min),
    *map(_of_training, TRAINING_DISPLAYS),
    Column(
        "flag", "what is wrong with it", 16, _flag_value,
        lambda view, scene: flag_text(view, scene.now, scene.glyphs), rank=_flag_rank,
    ),
)  # fmt: skip
_BY_NAME = {column.name: column for column in COLUMNS}


def columns_with(logs: Iterable[str]) -> tuple[Column, ...]:
    """Return all columns, those of Keras's logs before the last; a log that is named as a column has none."""
    return (*COLUMNS[:-1], *(_of_training(name) for name in logs if name not in _BY_NAME), COLUMNS[-1])


def column_named(name: str) -> Column:
    """Return the column of this name, of a log where there is no other."""
    return _BY_NAME.get(name) or _of_training(name)


USUAL = (
    "task", "host", "state", "up", "gen", "step", "time", "phases", "trend", "device", "memory", "received", "sent",
    "flag",
)  # fmt: skip
"""Names of the columns that are shown before the operator chooses."""


def usual(views: Sequence[TaskView]) -> tuple[str, ...]:
    """Return the names of the usual columns, and `stale` where updates can be stale."""
    is_asynchronous = any(view.summary is not None and view.summary.staleness is not None for view in views)
    return (*USUAL, "stale") if is_asynchronous else USUAL
