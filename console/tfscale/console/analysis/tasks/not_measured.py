"""Tasks with a training process that is not measured: it has no probe, or another process of the task reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.console.analysis.observed.observed_task import IDLE_CORES, ObservedTask
from tfscale.console.analysis.tasks.not_started import PATIENCE
from tfscale.core.log_clues import UNMEASURED
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import duration, listing

_IMPORTS = 120.0
"""Seconds from its start for which a process at work may import something else than TensorFlow. With less modules and
data that take 40 s would be a warning, with more a wrong command that computes is told later."""
_NEVER = (ProbeState.DISABLED, ProbeState.ABSENT, ProbeState.EXPECTED)
_HAVE = {"is": "are", "was": "were"}
_DIFFERING = re.compile(r"\bprocess \d+( \(.*?\))?| \(.*\)$")
"""Number of a process, and its command: tasks with one reason differ in them."""


@dataclass(frozen=True, slots=True)
class _Lack:
    """Reason for which a task is not measured."""

    verb: str
    what: str
    why: str

    @property
    def alike(self) -> tuple[str, str, str]:
        """All in which the reasons of two tasks must be the same."""
        return self.verb, self.what, _DIFFERING.sub("", self.why)


def not_measured(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task whose steps are not measured; it ends at the task's next start.

    Tasks with the same reason share one sentence.
    """
    groups: dict[tuple[str, str, str], list[tuple[ObservedTask, _Lack]]] = {}
    for task in tasks:
        if task.probe and (lack := _lack(task, task.probe)):
            groups.setdefault(lack.alike, []).append((task, lack))
    return [diagnosis for group in groups.values() for diagnosis in _describe(group)]


def _lack(task: ObservedTask, probe: ProbeStatus) -> _Lack | None:
    ended_well = task.state is TaskState.EXITED and task.ended_well
    if ended_well and task.progressed is None and probe.state in _NEVER:
        return _Lack("was", "not measured", probe.message)
    if probe.state is ProbeState.EXPECTED and _may_import(task):
        return None
    return _lack_now(probe) if task.running else None


def _may_import(task: ObservedTask) -> bool:
    """Decide whether a young process without TensorFlow is at work: it may import something else, or read data.

    At first a second at rest is enough to tell of it, for that is to be soon; later a pause of what it reads is none.
    """
    is_at_work = task.is_at_work if task.age > PATIENCE else (task.cores or 0.0) > IDLE_CORES
    return is_at_work and task.age < _IMPORTS


def _lack_now(probe: ProbeStatus) -> _Lack | None:
    if probe.state is ProbeState.ABSENT:
        return _Lack("is", "neither measured nor repaired", probe.message)
    if probe.state in (ProbeState.DISABLED, ProbeState.EXPECTED):
        return _Lack("is", "not measured", probe.message)
    beside = next((note for note in probe.warnings if note.startswith(UNMEASURED)), None)
    return None if beside is None else _Lack("is", "measured in part", beside.removeprefix(UNMEASURED))


def _describe(group: Sequence[tuple[ObservedTask, _Lack]]) -> list[Diagnosis]:
    first, lack = group[0]
    names = tuple(task.name for task, _ in group)
    verb = _HAVE[lack.verb] if names[1:] else lack.verb
    whose = f"; of {first.name}: " if names[1:] else ": "
    sentence = f"{listing(names)} {verb} {lack.what}{whose}{lack.why}{_age(first, lack)}"
    together = names if names[1:] else ()
    return [
        Diagnosis("not_measured", task.name, _begin(task), None, "warning", sentence, evidence={}, together=together)
        for task, _ in group
    ]


def _begin(task: ObservedTask) -> float:
    return task.status.started if task.status and task.status.started is not None else task.at or 0.0


def _age(task: ObservedTask, lack: _Lack) -> str:
    """Return how long a task has imported no TensorFlow, and what to look at; empty for all other reasons."""
    assert task.probe is not None
    if task.probe.state is not ProbeState.EXPECTED or lack.verb == "was" or task.at is None:
        return ""
    after = duration(max(0.0, task.at - _begin(task)))
    return f", {after} after its start: is that the command of the training? See its log"
