"""Activities of a process while the cluster makes no step, as far as its agent's facts tell.

Every sentence about them comes from `doing`: a new fact about a process becomes a case of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfscale.console.analysis.condition.standing_reasons import reasons_to_stand_still
from tfscale.console.analysis.observed.observed_task import IDLE_CORES, ObservedTask
from tfscale.core.records.probe_status import ActivityKind
from tfscale.core.text import clock, exit_clause

ENDED, STARTING, STOPPED, SILENT, HELD, IDLE, AT_WORK, UNKNOWN = (
    "ended",
    "starting",
    "stopped",
    "silent",
    "held",
    "idle",
    "at_work",
    "unknown",
)
"""Kinds of doings, beside the kinds of activities (`compile`, `checkpoint`, `evaluation`)."""

BY_SIGNAL = "a signal has stopped its process"

_ACTIVITIES = {
    ActivityKind.COMPILE: "compiling (a function is traced)",
    ActivityKind.CHECKPOINT: "saving or restoring a checkpoint",
    ActivityKind.EVALUATION: "evaluating",
}
_BRIEF = {ActivityKind.COMPILE: "compiles", ActivityKind.CHECKPOINT: "saves", ActivityKind.EVALUATION: "evaluates"}


@dataclass(frozen=True, slots=True)
class Doing:
    """Doing of one process."""

    kind: str
    clause: str = ""
    """Part of a sentence in which `it` is the task; for an activity its participle; empty if unknown."""
    brief: str = ""
    """A few words for the task's row."""
    since: float | None = None
    """Begin of an activity; for silence, time of the agent's last frame, None without one. Unix seconds."""

    @property
    def is_expected(self) -> bool:
        """True for work in which no step is expected."""
        return self.kind in _EXPECTED

    @property
    def is_certain(self) -> bool:
        """True where this doing alone explains that the task makes no step."""
        return self.kind in (ENDED, STARTING, STOPPED)


def unheard_since(silent: Iterable[Doing]) -> str:
    """Return the begin of these agents' common silence in words: ` since 12:00:00`."""
    heard = [each.since for each in silent if each.since is not None]
    return f" since {clock(max(heard))}" if heard else " since the console began to watch"


_EXPECTED = frozenset(kind.value for kind in _ACTIVITIES)


def doing(task: ObservedTask, now: float) -> Doing:
    """Return the doing of a task's process at `now`, Unix seconds on the observer's clock."""
    if task.is_over:
        end = task.status.exit if task.status else None
        return Doing(ENDED, exit_clause(end), "has ended")
    if task.state is None or task.is_silent(now):
        return Doing(SILENT, "whether it runs is not known", "not heard", task.heard)
    if not task.running:
        return Doing(STARTING, f"its task is {task.state}", str(task.state))
    if task.stopped:
        return Doing(STOPPED, BY_SIGNAL, "stopped by a signal")
    if (held := _held(task)) is not None:
        return held
    if task.activity in _ACTIVITIES:
        kind = task.activity
        return Doing(kind.value, _ACTIVITIES[kind], _BRIEF[kind], task.activity_since)
    return _by_cpu(task.cores)


def _held(task: ObservedTask) -> Doing | None:
    """Return what holds a process up by its agent's facts; None where they do not tell."""
    host = task.held.host if task.held else None
    clause = next(reasons_to_stand_still(host), None) if host else None
    if host is None or host.task is None or clause is None:
        return None
    if host.task.traced or host.task.frozen:
        return Doing(STOPPED, clause, "frozen" if host.task.frozen else "in a debugger")
    if clause == host.task.stands_at and (by_cpu := _by_cpu(task.cores)).kind == AT_WORK:
        # A place in its Python: TensorFlow's threads may compute meanwhile.
        return Doing(AT_WORK, f"{by_cpu.clause}; {clause}", by_cpu.brief)
    return Doing(HELD, clause, "waits in the kernel" if host.task.blocked else "stands still")


def _by_cpu(cores: float | None) -> Doing:
    if cores is None:
        return Doing(UNKNOWN)
    if cores <= IDLE_CORES:
        return Doing(IDLE, "its process waits for something, and computes nothing", "idle")
    return Doing(AT_WORK, f"its process is at work ({cores:.1f} cores)", "at work")
