"""Timeline of a cluster: one entry an incident, whatever number of tasks, states or severities it has gone through."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.finding_kinds import NOT_JUDGED
from tfscale.console.analysis.findings import is_standing, sentence_key
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.engine.events import CommandProgressed
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.engine.timeline.event_text import end_text, progress_text, status_text
from tfscale.core.cluster.task import CLUSTER, Task, subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Stage, TaskState, TaskStatus
from tfscale.core.text import elapsed

ENTRIES_KEPT = 1000
TOGETHER = 15.0
"""Seconds within which the same news of several tasks is one entry, as a crash takes its followers along."""
_STOP_BEFORE_START = 60.0
"""Seconds up to which a stop before a start is part of it: grace periods are shorter."""
_CLOCK_DOUBT = 5.0
"""Seconds by which the clock of a follower's host may be behind that of the task that it followed."""
_SAME = 3.0
"""Seconds within which two consoles tell one thing: a late one judges second by second as an earlier one did."""
_STOPS = (TaskState.STOPPING, TaskState.EXITED)
_ORDER = (TaskState.PENDING, TaskState.STOPPING, TaskState.EXITED, TaskState.STARTING, TaskState.RUNNING)
"""States on the way of a restart: an entry shows the furthest that a task has reached."""


@dataclass(slots=True)
class _Incident:
    """One entry that is still written; `tasks` are those that share it, empty where its subject is no task."""

    entry: TimelineEntry
    tasks: set[Task] = field(default_factory=set)
    status: TaskStatus | None = None
    """The furthest status of a start or a stop."""
    is_new: bool = True
    """True where the subject is not that of the tasks yet."""

    def finished(self) -> TimelineEntry:
        """Return the entry with its tasks as the subject."""
        if self.is_new and self.tasks:
            tasks = tuple(sorted(self.tasks))
            self.entry = replace(self.entry, subject=names_of([*map(str, tasks)]), tasks=tasks)
        self.is_new = False
        return self.entry


class Timeline:
    """Entries of at most `ENTRIES_KEPT` incidents."""

    def __init__(self) -> None:
        self._incidents: dict[Hashable, _Incident] = {}
        """The oldest first."""
        self._numbers = itertools.count(1)
        self._stops: dict[Task, Hashable] = {}
        """Key of the stop in which a task was last."""
        self._command: Hashable = None
        self._recalled: tuple[TimelineEntry, ...] = ()
        """Entries of another console, which was there before this one."""
        self._giver = ""
        """Reason of this console's newest command, with who gave it, as agents tell it."""

    def entries(self) -> tuple[TimelineEntry, ...]:
        """Return all entries in the order of their times."""
        own = [each.finished() for each in self._incidents.values()]
        return tuple(sorted([*self._not_among(own), *own], key=lambda entry: entry.at)[-ENTRIES_KEPT:])

    def recall(self, entries: Iterable[TimelineEntry]) -> None:
        """Take in the entries of a console that was there before: those of what this one tells too are left out."""
        self._recalled = tuple(replace(entry, number=-number) for number, entry in enumerate(entries, 1))

    def _not_among(self, own: Iterable[TimelineEntry]) -> list[TimelineEntry]:
        if not self._recalled:
            return []
        told: dict[Hashable, list[float]] = {}
        for entry in own:
            told.setdefault(_news_key(entry), []).append(entry.at)
        return [
            entry
            for entry in self._recalled
            if all(abs(entry.at - at) > _SAME for at in told.get(_news_key(entry), ()))
        ]

    def add(self, at: float, severity: str, subject: str, text: str, kind: str) -> None:
        """Add an entry of its own."""
        self._put(None, TimelineEntry(at, severity, subject, text, kind))

    def add_news(self, at: float, severity: str, task: Task, text: str, kind: str) -> None:
        """Add news of a task; several tasks with the same news within `TOGETHER` share an entry."""
        key = (kind, severity, text)
        same = self._incidents.get(key)
        if same is None or not abs(at - same.entry.at) <= TOGETHER or task in same.tasks:
            self._retire(key)
            same = self._put(key, TimelineEntry(at, severity, str(task), text, kind))
        self._join(same, task)

    def add_status(self, at: float, severity: str, task: Task, status: TaskStatus) -> None:
        """Add a task's new status: all that a start or a stop of a generation takes is one entry."""
        is_asked = status.exit is not None and status.exit.requested
        if severity == "critical" or (status.state is TaskState.EXITED and not is_asked):
            self.add_news(at, severity, task, status_text(status), "task")
            return
        is_stop = status.state in _STOPS
        key = ("stop" if is_stop else "start", status.generation, status.attempt)
        if is_stop:
            self._stops[task] = key
        else:
            at = self._without_stop(task, at)
        incident = self._incidents.get(key)
        if incident is None:
            incident = self._put(key, TimelineEntry(at, severity, str(task), status_text(status), "task"))
        if incident.status is None or _ORDER.index(status.state) >= _ORDER.index(incident.status.state):
            incident.status = status
            incident.entry = replace(
                incident.entry, at=min(at, incident.entry.at), severity=severity, text=status_text(status)
            )
        self._join(incident, task)

    def add_command(self, event: CommandProgressed) -> None:
        """Add the progress of a command of this console, in the entry in which it was planned."""
        severity = {Stage.FAILED: "critical", Stage.DONE: "good"}.get(event.stage, "info")
        known = self._incidents.get(self._command)
        if known is None or event.stage is Stage.PLANNED:
            self._giver, self._command = "", ("command", next(self._numbers))
            known = self._put(self._command, TimelineEntry(event.at, severity, CLUSTER, "", "command"))
        lasted = event.at - known.entry.at
        after = f", after {elapsed(lasted)}" if event.stage is Stage.DONE and lasted >= 1 else ""
        known.entry = replace(known.entry, severity=severity, text=f"{progress_text(event)}{after}{self._giver}")
        known.tasks.update(event.tasks)
        known.is_new = True
        if event.stage in (Stage.DONE, Stage.FAILED):
            self._retire(self._command)

    def name_giver(self, reason: str) -> None:
        """Tell with this console's newest command who gave it, as the status of its tasks does."""
        if not self._giver and " by " in reason and self._command in self._incidents:
            self._giver = f" ({reason})"

    def add_diagnosis(self, diagnosis: Diagnosis, now: float) -> None:
        """Add a diagnosis that has begun or changed: it has one entry, and a crash is that of all who followed."""
        key = _key(diagnosis)
        before = self._incidents.get(key)
        at = before.entry.at if before else diagnosis.begin if diagnosis.kind == "crash" else now
        entry = TimelineEntry(at, diagnosis.severity, diagnosis.subject, diagnosis.sentence, diagnosis.kind, diagnosis)
        if before is None:
            self._put(key, entry)
        else:
            before.entry = replace(entry, number=before.entry.number)
        if diagnosis.kind == "crash":
            self._take_along(diagnosis)

    def end_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Add the end of a diagnosis at its time: what it was, and how long."""
        self._retire(_key(diagnosis))
        # What a restart has cost and gained is news once it is measured, and neither good nor bad.
        severity = "info" if NOT_JUDGED in diagnosis.evidence else "good"
        at, text = diagnosis.end or diagnosis.begin, end_text(diagnosis)
        self._put(None, TimelineEntry(at, severity, diagnosis.subject, text, diagnosis.kind, diagnosis))

    def _put(self, key: Hashable, entry: TimelineEntry) -> _Incident:
        number = next(self._numbers)
        incident = _Incident(replace(entry, number=number))
        self._incidents[number if key is None else key] = incident
        while len(self._incidents) > ENTRIES_KEPT:
            del self._incidents[next(iter(self._incidents))]
        return incident

    def _retire(self, key: Hashable) -> None:
        """Keep an incident as it is: what comes under its key is another one."""
        if (incident := self._incidents.pop(key, None)) is not None:
            self._incidents[incident.entry.number] = incident

    @staticmethod
    def _join(incident: _Incident, task: Task) -> None:
        incident.tasks.add(task)
        incident.is_new = True

    def _without_stop(self, task: Task, at: float) -> float:
        """Take a task out of the stop that has gone before its start, and return the time of the first of both."""
        key = self._stops.pop(task, None)
        incident = self._incidents.get(key)
        if incident is None or not 0 <= at - incident.entry.at <= _STOP_BEFORE_START:
            return at
        self._drop(key, [task])
        return incident.entry.at

    def _take_along(self, crash: Diagnosis) -> None:
        """Take out the ends of the tasks that the entry of a crash tells of."""
        followers = crash.evidence.get("followers")
        names = {crash.subject, *(followers if isinstance(followers, tuple) else ())}
        tasks = list(filter(None, map(subject_task, names)))
        for key, incident in [*self._incidents.items()]:
            entry = incident.entry
            if entry.kind == "task" and entry.severity == "critical" and entry.at >= crash.begin - _CLOCK_DOUBT:
                self._drop(key, tasks)

    def _drop(self, key: Hashable, tasks: Iterable[Task]) -> None:
        """Take tasks out of an incident, which is none where no task is left."""
        incident = self._incidents[key]
        incident.tasks.difference_update(tasks)
        incident.is_new = True
        if not incident.tasks:
            del self._incidents[key]


def _news_key(entry: TimelineEntry) -> Hashable:
    """Return what two consoles tell alike of one thing: not the numbers in a diagnosis's sentence."""
    diagnosis = entry.diagnosis
    return entry.kind, entry.subject, entry.text if diagnosis is None else diagnosis.end is None


def _key(diagnosis: Diagnosis) -> Hashable:
    """Return the key of a diagnosis: a stillness and the hang that it becomes are one incident."""
    if is_standing(diagnosis):
        return "standing", diagnosis.subject, diagnosis.begin
    return "diagnosis", sentence_key(diagnosis)
