"""Strip of a start: the stages that a task has passed, the present one, and those to come, with their seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text
from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.condition.start_stages import Stage, Start
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Role, Task
from tfscale.core.text import elapsed

_NAMES = {
    Stage.ORDERED: "ordered",
    Stage.BEGUN: "begun",
    Stage.UNHEARD: "begun",
    Stage.BEFORE: "before TensorFlow",
    Stage.IMPORTING: "importing TensorFlow",
    Stage.PREPARING: "preparing",
    Stage.RESTORING: "checkpoint",
    Stage.EVALUATING: "evaluating",
    Stage.BUILDING: "building",
    Stage.MEETING: "first all-reduce",
}
_TO_COME = (Stage.IMPORTING, Stage.BUILDING)
"""Stages that every start has, besides the first step."""


def slowest_starting(snapshot: Snapshot) -> Task | None:
    """Return the task that keeps a starting cluster waiting; None where the cluster does not start."""
    if snapshot.findings.condition.kind is not Condition.STARTING:
        return None
    starts = snapshot.findings.starts
    meeting = [view.task for view in snapshot.tasks if view.task.role in (Role.CHIEF, Role.WORKER)]
    coming = [task for task in meeting if str(task) in starts]
    return min(coming, key=lambda task: _progress(starts[str(task)]), default=None)


def start_strip(start: Start, appearance: Appearance, width: int) -> Text:
    """Return the strip in one line of at most `width` cells; stages that are long over are the first to go."""
    palette, arrow = appearance.palette, f" {appearance.glyphs.arrow} "
    past = [_timed(name, seconds) for name, seconds in _passed(start)]
    present = _timed(_NAMES[start.stage], start.lasting)
    coming = [_NAMES[stage] for stage in _TO_COME if stage > start.stage and stage not in start.seconds]
    coming.append("first step")
    while past and len(arrow.join([*past, present, *coming])) > width:
        del past[0]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("".join(f"{name}{arrow}" for name in past), style=palette.dim)
    text.append(present, style=f"bold {palette.text}")
    text.append("".join(f"{arrow}{name}" for name in coming), style=palette.faint)
    text.truncate(width, overflow="ellipsis")
    return spelled(text, appearance)


def _passed(start: Start) -> Sequence[tuple[str, float]]:
    """Return names and seconds of the stages before the present one; two of one name are one."""
    passed: dict[str, float] = {}
    for stage, seconds in start.seconds.items():
        if stage is not start.stage and _NAMES[stage] != _NAMES[start.stage]:
            passed[_NAMES[stage]] = passed.get(_NAMES[stage], 0.0) + seconds
    return [(name, seconds) for name, seconds in passed.items() if seconds >= 1.0]


def _progress(start: Start) -> tuple[Stage, float]:
    return start.stage, -start.lasting


def _timed(name: str, seconds: float) -> str:
    return f"{name} {elapsed(seconds)}" if seconds >= 1.0 else name


def strip_of(starts: Mapping[str, Start], task: Task, appearance: Appearance, width: int) -> Text | None:
    """Return the strip of a task; None where the task does not start."""
    start = starts.get(str(task))
    return start_strip(start, appearance, width) if start is not None else None
