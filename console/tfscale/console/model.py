"""The fold: events in, a frozen `Snapshot` out. No clock, no input or output, no threads; the same for every source."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from tfscale.console.events import AgentDescribed, CommandProgressed, Event, FrameArrived, LinkChanged, LinkState, Stage
from tfscale.core.analysis.diagnose import Findings, SubjectSummary
from tfscale.core.cluster import Address, ClusterSpec
from tfscale.core.records import Description, Diagnosis, Exit, Frame, TaskState, TaskStatus
from tfscale.core.task import Role, Task, subject_task

MOMENTS_KEPT = 1000
OUTCOME_SHOWN = 12.0
"""Seconds for which the outcome of a command stands in the headline."""


class Analysis(Protocol):
    """What the fold asks of `tfscale.core.analysis.diagnose.Diagnostician`."""

    def fold(self, task: str, frame: Frame) -> None: ...
    def link(self, task: str, up: bool, at: float) -> None: ...
    def diagnose(self, now: float) -> Findings: ...


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to one agent, and since when it is so."""

    state: LinkState = LinkState.CONNECTING
    reason: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """All that is known of one task. What an unreachable agent said last stays."""

    task: Task
    agent: Address
    link: Link = Link()
    description: Description | None = None
    frame: Frame | None = None
    """The newest, without its steps."""
    summary: SubjectSummary | None = None
    replicas: Mapping[str, SubjectSummary] = field(default_factory=dict)
    """By subject, where the task's replicas are measured one by one."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """The open ones about it."""

    @property
    def status(self) -> TaskStatus | None:
        return self.frame.status if self.frame else None

    @property
    def host(self) -> str:
        return self.description.host if self.description else self.agent.host

    @property
    def is_up(self) -> bool:
        """Whether the task is known to run: its agent is connected and says so."""
        return self.link.state is LinkState.UP and self.status is not None and self.status.state is TaskState.RUNNING

    @property
    def is_stale(self) -> bool:
        """Whether what is shown of it may no longer be so."""
        return self.link.state is not LinkState.UP


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the event pane."""

    at: float
    severity: str
    """As of a Diagnosis, or `good` where something bad ended."""
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole cluster at one moment; screens and exports see nothing else."""

    at: float
    run: str
    strategy: str | None
    generation: int | None
    tasks: tuple[TaskView, ...]
    findings: Findings
    changes: tuple[Diagnosis, ...] = ()
    """Diagnoses that began, changed or ended since the snapshot before."""
    moments: tuple[Moment, ...] = ()
    """Oldest first."""
    command: CommandProgressed | None = None
    """The newest moment of the command that is under way or has just ended."""

    @property
    def up(self) -> int:
        return sum(view.is_up for view in self.tasks)

    def view(self, task: Task) -> TaskView:
        return next(view for view in self.tasks if view.task == task)


class ClusterState:
    """Accumulates events; `snapshot` freezes what they amount to."""

    def __init__(self, spec: ClusterSpec, analysis: Analysis) -> None:
        self._spec = spec
        self._analysis = analysis
        self._views = {task: TaskView(task, spec.agents[task]) for task in spec.tasks}
        self._moments: deque[Moment] = deque(maxlen=MOMENTS_KEPT)
        self._open: dict[tuple[str, str, float], Diagnosis] = {}
        self._command: CommandProgressed | None = None
        self._commanded: frozenset[Task] = frozenset()
        self._reporting: set[Task] = set()

    @property
    def reporting(self) -> frozenset[Task]:
        """The tasks of which at least one step was seen."""
        return frozenset(self._reporting)

    @property
    def expected_to_report(self) -> frozenset[Task]:
        """The tasks whose steps tell that training is under way."""
        roles = {task.role for task in self._spec.tasks}
        # Under ParameterServer the chief only hands out the work.
        training = {Role.WORKER} if Role.PS in roles else {Role.CHIEF, Role.WORKER}
        return frozenset(task for task in self._spec.tasks if task.role in training)

    def fold(self, event: Event) -> None:
        """Take in one event; every event exactly once, in order of arrival."""
        match event:
            case FrameArrived():
                self._fold_frame(event)
            case AgentDescribed(_, task, description):
                self._views[task] = replace(self._views[task], description=description)
            case LinkChanged():
                self._fold_link(event)
            case CommandProgressed():
                self._fold_command(event)

    def snapshot(self, now: float) -> Snapshot:
        """Diagnose, and freeze. `now` is Unix seconds."""
        findings = self._analysis.diagnose(now)
        changes = self._changes(findings, now)
        if self._command and _is_over(self._command) and now - self._command.at > OUTCOME_SHOWN:
            self._command, self._commanded = None, frozenset()
        views = tuple(_with_findings(view, by_task) for view, by_task in self._joined(findings))
        probes = [view.frame.probe for view in views if view.frame and view.frame.probe]
        generations = [view.status.generation for view in views if view.status]
        return Snapshot(
            at=now,
            run=next((view.description.run for view in views if view.description), self._spec.name),
            strategy=next((probe.strategy for probe in probes if probe.strategy), None),
            generation=max(generations, default=None),
            tasks=views,
            findings=findings,
            changes=changes,
            moments=tuple(sorted(self._moments, key=lambda moment: moment.at)),
            command=self._command,
        )

    def _fold_frame(self, event: FrameArrived) -> None:
        view = self._views[event.task]
        self._analysis.fold(str(event.task), event.frame)
        for batch in event.frame.steps:
            task = subject_task(batch.subject)
            if task is not None and len(batch.sequence):
                self._reporting.add(task)
        self._note_status(view.status, event)
        self._views[event.task] = replace(view, frame=replace(event.frame, steps=()))

    def _note_status(self, before: TaskStatus | None, event: FrameArrived) -> None:
        after = event.frame.status
        key = (after.state, after.generation, after.attempt)
        if before is not None and key == (before.state, before.generation, before.attempt):
            return
        if before is None and after.state in (TaskState.RUNNING, TaskState.PENDING):
            return
        if event.task in self._commanded and _severity(after) != "critical":
            # The command's own progress has said so already.
            return
        at = after.exit.at if after.exit and after.state is TaskState.EXITED else event.frame.at
        self._note(at, _severity(after), str(event.task), describe_change(after))

    def _fold_link(self, event: LinkChanged) -> None:
        view = self._views[event.task]
        is_up = event.state is LinkState.UP
        since = event.at if event.state is not view.link.state else view.link.since
        self._views[event.task] = replace(view, link=Link(event.state, event.reason, since))
        if event.state is not LinkState.CONNECTING:
            self._analysis.link(str(event.task), is_up, event.at)
        if is_up and view.link.state not in (LinkState.CONNECTING, LinkState.UP):
            self._note(event.at, "good", str(event.task), "agent is back")
        elif not is_up and event.state is not view.link.state and event.state is not LinkState.CONNECTING:
            self._note(event.at, "warning", str(event.task), f"agent {event.state}: {event.reason}")

    def _fold_command(self, event: CommandProgressed) -> None:
        self._command = event
        if event.stage is Stage.PLANNED:
            self._commanded = frozenset(event.tasks)
        severity = {Stage.FAILED: "critical", Stage.DONE: "good"}.get(event.stage, "info")
        self._note(event.at, severity, ", ".join(map(str, event.tasks)) or "cluster", describe_progress(event))

    def _changes(self, findings: Findings, now: float) -> tuple[Diagnosis, ...]:
        changes = []
        for diagnosis in findings.diagnoses:
            key = (diagnosis.kind, diagnosis.subject, diagnosis.begin)
            before = self._open.get(key)
            if before is None or _said(before) != _said(diagnosis):
                changes.append(diagnosis)
            if before is None or before.severity != diagnosis.severity or diagnosis.end is not None:
                self._note_diagnosis(diagnosis, now)
            self._open[key] = diagnosis
            if diagnosis.end is not None:
                del self._open[key]
        return tuple(changes)

    def _note_diagnosis(self, diagnosis: Diagnosis, now: float) -> None:
        if diagnosis.end is None:
            self._note(now, diagnosis.severity, diagnosis.subject, diagnosis.sentence)
        else:
            lasted = diagnosis.end - diagnosis.begin
            self._note(diagnosis.end, "good", diagnosis.subject, f"{diagnosis.kind} is over, after {lasted:.0f} s")

    def _joined(self, findings: Findings) -> list[tuple[TaskView, _Findings]]:
        by_task = {task: _Findings() for task in self._views}
        for subject, summary in findings.subjects.items():
            if (task := subject_task(subject)) in by_task:
                by_task[task].summaries[subject] = summary
        for diagnosis in findings.diagnoses:
            if diagnosis.end is None and (task := subject_task(diagnosis.subject)) in by_task:
                by_task[task].diagnoses.append(diagnosis)
        return [(view, by_task[task]) for task, view in self._views.items()]

    def _note(self, at: float, severity: str, subject: str, text: str) -> None:
        self._moments.append(Moment(at, severity, subject, text))


@dataclass(slots=True)
class _Findings:
    summaries: dict[str, SubjectSummary] = field(default_factory=dict)
    diagnoses: list[Diagnosis] = field(default_factory=list)


def _with_findings(view: TaskView, found: _Findings) -> TaskView:
    name = str(view.task)
    replicas = {subject: summary for subject, summary in found.summaries.items() if subject != name}
    summary = found.summaries.get(name)
    if summary is None and replicas:
        summary = max(replicas.values(), key=lambda each: each.lag or 0.0)
    return replace(view, summary=summary, replicas=replicas, diagnoses=tuple(found.diagnoses))


def _said(diagnosis: Diagnosis) -> tuple[str, str, float | None]:
    """What makes a diagnosis new to its reader; the numbers of its evidence move all the time."""
    return diagnosis.sentence, diagnosis.severity, diagnosis.end


def _is_over(command: CommandProgressed) -> bool:
    return command.stage in (Stage.DONE, Stage.FAILED)


def describe_exit(exit: Exit | None) -> str:
    """How a task ended, in two words: `exited 1`, `killed SIGKILL`."""
    if exit is None or (exit.code is None and exit.signal is None):
        return "ended, how is unknown"
    if exit.signal is not None:
        return f"killed {signal_name(exit.signal)}"
    return f"exited {exit.code}"


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; the number where this system has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_change(status: TaskStatus) -> str:
    """One line for the event pane: what the task has become."""
    because = f" ({status.reason})" if status.reason else ""
    match status.state:
        case TaskState.EXITED:
            return describe_exit(status.exit) + because
        case TaskState.LOST:
            return "lost: its shim died, how it ended cannot be known" + because
        case TaskState.RUNNING | TaskState.STARTING:
            return f"{status.state}, generation {status.generation}, attempt {status.attempt}{because}"
        case _:
            return f"{status.state}{because}"


def describe_progress(command: CommandProgressed) -> str:
    """One line for the event pane: how far a command has come."""
    said = f": {command.message}" if command.message else ""
    match command.stage:
        case Stage.PLANNED:
            return f"{command.verb} planned, generation {command.generation}{said}"
        case Stage.FAILED:
            return f"{command.verb} failed{said}"
        case Stage.DONE:
            return f"{command.verb} done, generation {command.generation}{said}"
        case _:
            return f"{command.stage}{said}"


def _severity(status: TaskStatus) -> str:
    if status.state is TaskState.LOST:
        return "critical"
    if status.state is TaskState.EXITED and not (status.exit and (status.exit.requested or status.exit.code == 0)):
        return "critical"
    return "good" if status.state is TaskState.RUNNING else "info"
