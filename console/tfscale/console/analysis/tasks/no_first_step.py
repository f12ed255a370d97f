"""Clusters in which every task has joined, and nobody makes the first step."""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.out_of_step import missing
from tfscale.console.analysis.tasks.not_started import why_missing
from tfscale.core.cluster.task import CLUSTER, Role
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ActivityKind, ProbeState
from tfscale.core.text import clock, duration, listing, plural

PATIENCE = 60.0
"""Seconds from the last start, or in the first collective, that a first step may take. Graphs of large models are
built for tens of seconds: with less each such start would be stuck, with more a dead start is named later."""
IDLE = 30.0
"""Seconds for which all processes must have been idle. A download between may take that long; with less it would be
a dead start, with more a dead start is named later."""


def no_first_step(tasks: Sequence[ObservedTask], now: float) -> list[Diagnosis]:
    """Return at most one diagnosis: of the cluster, or of the task that has not entered the first collective."""
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    meeting = [task for task in needed if task.meets]
    started = [task.status.started for task in needed if task.status and task.status.started is not None]
    if not started or any(task.progressed is not None or task.is_silent(now) for task in needed):
        return []
    if any(why_missing(task) is not None for task in needed) or _is_busy(meeting):
        return []
    begin = max(started)
    if any(task.task.role is Role.PS for task in needed):
        return _without_chief(needed, begin, now)
    return _in_the_first_collective(meeting, begin, now) or _idle(meeting, begin, now)


def _is_busy(meeting: Sequence[ObservedTask]) -> bool:
    """Decide whether a task works or cannot be measured, which other findings tell."""
    unmeasured = (ProbeState.DISABLED, ProbeState.ABSENT)
    return any(
        task.activity not in (None, ActivityKind.IDLE) or task.probe is None or task.probe.state in unmeasured
        for task in meeting
    )


def _without_chief(needed: Sequence[ObservedTask], begin: float, now: float) -> list[Diagnosis]:
    has_chief = any(task.task.role is Role.CHIEF or task.coordinator is not None for task in needed)
    if has_chief or now - begin <= PATIENCE:
        return []
    sentence = (
        f"nobody has made a step for {duration(now - begin)} (since {clock(begin)}): the cluster has parameter "
        "servers, but no chief, whose program gives the workers their work"
    )
    return [Diagnosis("not_started", CLUSTER, begin, None, "serious", sentence, evidence={"why": "no chief"})]


def _in_the_first_collective(meeting: Sequence[ObservedTask], begin: float, now: float) -> list[Diagnosis]:
    """Return the hang of tasks where some have been in their first collective for too long."""
    inside = [task for task in meeting if task.is_inside]
    since = max((task.collective.entered_at or begin for task in inside if task.collective), default=begin)
    if not inside or now - since <= PATIENCE:
        return []
    lasted = f"no first step for {duration(now - since)} (since {clock(since)})"
    late = sorted(missing(meeting))
    if late and len(late) < len(meeting):
        waiting = listing([task.name for task in meeting if task.name not in late])
        has = "has" if len(late) == 1 else "have"
        subject = late[0] if len(late) == 1 else CLUSTER
        why = f"{listing(late)} {has} not entered the first all-reduce in which {waiting} wait"
        idle = all(task.idle_since is not None for task in meeting if task.name in late)
        return [_hang("hang" if idle else "still", subject, since, f"{lasted}: {why}", now)]
    who = f"{inside[0].name} is" if len(meeting) == 1 else f"all {plural(len(meeting), 'task')} are"
    where = f"{who} inside the first all-reduce: look at the devices that it joins, and at the network between them"
    return [_hang("hang", CLUSTER if len(meeting) > 1 else inside[0].name, since, f"{lasted}: {where}", now)]


def _idle(meeting: Sequence[ObservedTask], begin: float, now: float) -> list[Diagnosis]:
    """Return the stillness of several tasks that compute nothing; a single idle task may wait for a person's input."""
    if len(meeting) < 2 or now - begin <= PATIENCE or any(not _has_idled(task) for task in meeting):
        return []
    sentence = (
        f"no first step for {duration(now - begin)} (since {clock(begin)}): all {plural(len(meeting), 'task')} wait "
        "for something, and compute nothing"
    )
    return [_hang("still", CLUSTER, begin, sentence, now)]


def _has_idled(task: ObservedTask) -> bool:
    return task.idle_since is not None and task.at is not None and task.at - task.idle_since >= IDLE


def _hang(kind: str, subject: str, begin: float, sentence: str, now: float) -> Diagnosis:
    severity = "critical" if kind == "hang" else "warning"
    return Diagnosis(kind, subject, begin, None, severity, sentence, evidence={"quiet": now - begin})
