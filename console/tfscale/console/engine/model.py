"""Frozen values that the screens and the exports read, made by `ClusterState`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.condition.process_doing import Doing
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.run.technique_words import technique_words
from tfscale.console.engine.events import CommandProgressed, LinkState
from tfscale.console.history.history import History
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.restart import governing
from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.cluster.task import Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import Training, furthest_behind
from tfscale.core.text import clock, duration


@dataclass(frozen=True, slots=True)
class Link:
    """Connection to one agent; `since` is Unix seconds of its last change."""

    state: LinkState = LinkState.CONNECTING
    reason: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class TaskView:
    """Everything known of one task. The last frame of an unreachable agent stays."""

    task: Task
    agent: Address
    link: Link = Link()
    description: Description | None = None
    frame: Frame | None = None
    """Newest frame, without its steps."""
    summary: SubjectSummary | None = None
    replicas: Mapping[str, SubjectSummary] = field(default_factory=dict)
    """Summaries by subject, of a task with replicas that are measured one by one."""
    stages: Mapping[str, SubjectSummary] = field(default_factory=dict)
    """Summaries by subject of the stages of a pipeline in this task."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """Open diagnoses about the task."""
    awaited: Doing | None = None
    """Reason for which the others wait for the task's process; None without a wait, or if it is expected."""
    waits_for: float | None = None
    """Seconds for which the task has been inside an all-reduce while nobody makes a step; None at any other time."""

    @property
    def status(self) -> TaskStatus | None:
        return self.frame.status if self.frame else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences of the probe: reasons for which it measures less, and differences from the script."""
        probe = self.frame.probe if self.frame else None
        return (*filter(None, [probe.message, *probe.warnings]),) if probe else ()

    @property
    def techniques(self) -> tuple[str, ...]:
        """Sentences about what makes its steps other than plain steps, from the probe's counts."""
        probe = self.frame.probe if self.frame else None
        return tuple(technique_words(probe)) if probe else ()

    @property
    def host(self) -> str:
        return self.description.host if self.description else self.agent.host

    @property
    def is_up(self) -> bool:
        """True while the task's agent is connected and reports that the task runs."""
        return self.link.state is LinkState.UP and self.status is not None and self.status.state is TaskState.RUNNING

    @property
    def has_ended(self) -> bool:
        """True if the newest news of the task is its end."""
        return self.status is not None and self.status.state is TaskState.EXITED

    @property
    def is_over(self) -> bool:
        """True if no process of the task runs, by its newest news: it has ended, or was lost."""
        return self.status is not None and self.status.is_over

    @property
    def is_stale(self) -> bool:
        """True where the agent is unreachable, so that all else may be outdated."""
        return self.link.state is not LinkState.UP


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of the event pane: an incident of tasks, an agent, a placement or a command, or the end of one."""

    at: float
    severity: str
    """Severity as in `Diagnosis`, or `good` where something bad ended."""
    subject: str
    text: str
    kind: str = ""
    """Kind of the diagnosis; else `task`, `agent`, `placement`, `command` or `policy`."""
    diagnosis: Diagnosis | None = None
    """The diagnosis at that time."""
    number: int = field(default=0, compare=False)
    """Number of the incident, by which a line is found again whose text has changed."""
    tasks: tuple[Task, ...] = ()
    """Tasks that share it, without a diagnosis."""

    @property
    def story(self) -> str:
        """The text with its subject, once: a diagnosis's sentence names it."""
        is_sentence = self.diagnosis is not None and self.text == self.diagnosis.sentence
        return self.text if is_sentence or self.text.startswith(self.subject) else f"{self.subject}: {self.text}"


OUTDATED = 3.0
"""Age of a snapshot from which on its headline no longer counts as present."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole cluster at one time. Screens and exports read nothing else."""

    at: float
    """Unix seconds of the snapshot's moment."""
    run: str
    strategy: str | None
    generation: int | None
    tasks: tuple[TaskView, ...]
    findings: Findings
    changes: tuple[Diagnosis, ...] = ()
    """Diagnoses that began, changed or ended since the snapshot before."""
    timeline: tuple[TimelineEntry, ...] = ()
    """Oldest first."""
    command: CommandProgressed | None = None
    """Newest progress of the command that is under way or has just ended."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Hosts on which no task is placed, with the reason."""
    free_seats: Mapping[Address, bool] = field(default_factory=dict)
    """Agents that hold no task: True for a spare, False where a task was placed elsewhere."""
    age: float = 0.0
    """Seconds between `at` and the moment when the snapshot was made; 0 for a source that is not live."""
    device_peak: float | None = None
    """FLOP/s of one device, as the cluster file states it."""
    history: History | None = field(default=None, compare=False, repr=False)
    """Seconds and steps before `at`. Later snapshots share the object; reading changes nothing."""

    @property
    def governing(self) -> str | None:
        """Strategy by which the tasks depend on one another, as `restart.governing` names it; None unknown."""
        probes = [view.frame.probe for view in self.tasks if view.frame and view.frame.probe]
        known = [name for name in map(governing, probes) if name is not None]
        return next((name for name in known if name != DEFAULT.name), DEFAULT.name if known else self.strategy)

    @property
    def is_outdated(self) -> bool:
        """True where the console was so far behind that this tells of the past."""
        return self.age > OUTDATED

    @property
    def moment(self) -> str:
        """First words of an outdated snapshot's top line; empty for a new one, and for a command's: that is of now."""
        if not self.is_outdated or self.command is not None:
            return ""
        return f"as of {clock(self.at)}, {duration(self.age)} ago: "

    @property
    def loss(self) -> float | None:
        """Loss of the first task that reports one; NaN if any task's loss is not finite, None without training."""
        trainings = [view.frame.training for view in self.tasks if view.frame and view.frame.training]
        if any(training.finite is False for training in trainings):
            return math.nan
        if not self.findings.condition.may_be_judged:
            return None
        return next((training.loss for training in trainings if training.loss is not None), None)

    @property
    def progress(self) -> Training | None:
        """Training of the task that will be done last, of any one where no length is known; None while none trains."""
        frames = (view.frame for view in self.tasks if view.frame and view.frame.status.state is TaskState.RUNNING)
        known = furthest_behind(frame.training for frame in frames if frame.training)
        # The pace of before says nothing of a cluster that stands.
        return known if known is None or self.findings.condition.may_be_judged else replace(known, time_left=None)

    @property
    def up(self) -> int:
        return sum(view.is_up for view in self.tasks)

    @property
    def is_over(self) -> bool:
        """True if nothing of any task runs, by the newest news of each."""
        return all(view.is_over for view in self.tasks)

    def mfu(self, view: TaskView) -> float | None:
        """Return the model FLOPs utilisation of a task, by the step time of its summary, which only one at work has."""
        probe = view.frame.probe if view.frame else None
        if probe is None or view.summary is None or not view.is_up:
            return None
        return probe.mfu(view.summary.step_time, self.device_peak)

    def view(self, task: Task) -> TaskView:
        return next(view for view in self.tasks if view.task == task)
