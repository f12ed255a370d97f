"""Events that reach the console: from the agents' streams, from the operator's commands, and from the clock.

Every event carries `at`, Unix seconds on the console's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.task_status import Stage


class LinkState(StrEnum):
    """State of the console's connection to one agent."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """The agent does not answer, or fell silent; the connection is tried again."""
    LEFT = "left"
    """The agent was asked to leave its task to the next agent; it is tried again."""
    MOVED = "moved"
    """The agent goes on with another task, since tasks were placed anew; it is tried again."""
    REFUSED = "refused"
    """The agent answers, but not to this console or not for this task; tried again, seldom."""
    VERSION = "version"
    """The agent speaks another schema than this console; it is tried again, seldom."""
    VACANT = "vacant"
    """No agent holds the task: the gang trains with fewer workers."""


def link_state(name: str) -> LinkState:
    """Return the state of this name; DOWN, with a reason of its own, for a name of a newer console."""
    return LinkState(name) if name in set(LinkState) else LinkState.DOWN


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """Arrival of a frame of the task's agent. Each frame arrives exactly once."""

    at: float
    task: Task
    frame: Frame
    message: bytes | None = field(default=None, compare=False, repr=False)
    """The frame's bytes as received, for a recording without encoding; None for a frame that was not received."""


@dataclass(frozen=True, slots=True)
class AgentDescribed:
    """Description of an agent by itself; the first event of every new connection."""

    at: float
    task: Task
    description: Description


@dataclass(frozen=True, slots=True)
class LinkChanged:
    """Change of the connection to the task's agent, or of the reason for its loss."""

    at: float
    task: Task
    state: LinkState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CommandProgressed:
    """Progress of a command of this console."""

    at: float
    verb: str
    """`restart`, `stop`, `start` or `profile`."""
    stage: Stage
    tasks: tuple[Task, ...]
    generation: int
    """Generation that the command issues; 0 for a command without one."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PolicyTold:
    """Sentence of this console about a policy that it carries out: why a task is left, or not restarted again."""

    at: float
    task: Task
    message: str


@dataclass(frozen=True, slots=True)
class MilestoneTold:
    """Milestone from before the first frame of a task's agent; its own time is the agent host's."""

    at: float
    task: Task
    milestone: Milestone


Content = bytes
"""Type of a content: a field named `bytes` hides its name."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Progress of a profile; `file` and `bytes` once it is written. Both paths are on the task's host."""

    doing: str
    folder: str
    file: str = ""
    bytes: int = 0
    content: Content = b""
    """Next piece of the file, where it is fetched."""


@dataclass(frozen=True, slots=True)
class SecondPassed:
    """End of a second: the events before it are diagnosed now.

    A recording keeps it, so that a replay diagnoses the same events at the same times.
    """

    at: float


@dataclass(frozen=True, slots=True)
class Rewound:
    """Jump of a replay to another time: the state so far is void."""

    at: float


Event = (
    FrameArrived
    | AgentDescribed
    | LinkChanged
    | MilestoneTold
    | CommandProgressed
    | PolicyTold
    | SecondPassed
    | Rewound
)
