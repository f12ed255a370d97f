"""State of a task as its agent sees it, and the stages of a command."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.records.schema import Time
from tfscale.core.text_enum import TextEnum


class TaskState(TextEnum):
    """State of a task, as its agent sees it; docs/how-it-works/ownership.md has the transitions."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    LOST = "lost"


class Stage(TextEnum):
    """Stage of a command, for the tasks that its progress names."""

    PLANNED = "planned"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"
    WORKING = "working"
    """The message names the work, or for what a command waits before it begins; the tasks' state stays as it is."""


@dataclass(frozen=True, slots=True)
class Exit:
    """End of a task's process: a code or a signal, both None where they could not be read."""

    code: int | None
    signal: int | None
    at: Time
    requested: bool = False
    """True where the agent had asked the task to end."""
    log: tuple[str, ...] = ()
    """Last lines of the task's log, including the line that explains the end."""

    @property
    def well(self) -> bool:
        """True where the process exited 0, or was asked to end."""
        return self.requested or self.code == 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason of a start or a stop, and of the command that asks for it."""

    text: str = ""
    """Words for people: no code takes them apart."""
    restarted_for: str = ""
    """Name of the slow task for whose sake the policy `on_straggler` restarts; empty for any other reason."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """State of a task. `generation` is the cluster's; `attempt` counts this task's starts within it, from 1."""

    state: TaskState
    generation: int = 0
    attempt: int = 0
    pid: int | None = None
    started: Time | None = None
    exit: Exit | None = None
    reason: str = ""
    restart_at: Time | None = None
    """Time of the task's next automatic restart; None without one."""
    restarted_for: str = ""
    """Name of the slow task for whose sake the policy `on_straggler` made this start; empty for any other reason."""

    @property
    def is_over(self) -> bool:
        """True once the task's process has ended, or was lost with its shim."""
        return self.state in (TaskState.EXITED, TaskState.LOST)
