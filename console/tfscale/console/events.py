"""What reaches the console: from the agents' streams, from the commands that it gave, and from the clock.

Every event carries `at`, Unix seconds on the console's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tfscale.core.records import Description, Frame, Stage
from tfscale.core.task import Task


class LinkState(StrEnum):
    """The console's connection to one agent."""

    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"
    """Does not answer, or fell silent; it is tried again."""
    REFUSED = "refused"
    """Answers, but not to this console or not for this task; it is tried again, seldom."""
    VERSION = "version"
    """Speaks another schema than this console; it is tried again, seldom."""


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A frame of the task's agent, each exactly once."""

    at: float
    task: Task
    frame: Frame
    message: bytes | None = field(default=None, compare=False, repr=False)
    """The frame as it travelled, where it did: spares a recording from encoding it."""


@dataclass(frozen=True, slots=True)
class AgentDescribed:
    """The agent said who it is; the first thing on every new connection."""

    at: float
    task: Task
    description: Description


@dataclass(frozen=True, slots=True)
class LinkChanged:
    """The connection to the task's agent changed, or the reason why it is down did."""

    at: float
    task: Task
    state: LinkState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CommandProgressed:
    """A moment in what this console asked for."""

    at: float
    verb: str
    """`restart`, `stop`, `start` or `profile`."""
    stage: Stage
    tasks: tuple[Task, ...]
    generation: int
    """0 where the command issues none."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """How far a profile has come; `file` and `bytes` when it is written. Both paths are on the task's host."""

    doing: str
    folder: str
    file: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SecondPassed:
    """The moment to diagnose what came before. Being an event, it stands in recordings too: a replay diagnoses at the
    same moments, knowing the same."""

    at: float


@dataclass(frozen=True, slots=True)
class Rewound:
    """A replay goes on from another moment than the one that it had come to: what was folded so far is void."""

    at: float


Event = FrameArrived | AgentDescribed | LinkChanged | CommandProgressed | SecondPassed | Rewound
