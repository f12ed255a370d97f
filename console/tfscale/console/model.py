"""What the screens and the exports see: frozen values, made by `tfscale.console.state` from what a source gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.console.events import CommandProgressed, LinkState
from tfscale.console.history import History
from tfscale.core.analysis.diagnose import Findings, SubjectSummary
from tfscale.core.cluster import Address
from tfscale.core.records import Description, Diagnosis, Frame, TaskState, TaskStatus
from tfscale.core.task import Task


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
    kind: str = ""
    """Of a diagnosis; else `task`, `agent` or `command`."""
    diagnosis: Diagnosis | None = None
    """As it was then."""


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
    history: History | None = field(default=None, compare=False, repr=False)
    """What came before `at`. It is shared with later snapshots, and reading it changes nothing."""

    @property
    def up(self) -> int:
        return sum(view.is_up for view in self.tasks)

    def view(self, task: Task) -> TaskView:
        return next(view for view in self.tasks if view.task == task)
