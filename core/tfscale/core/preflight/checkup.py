"""Everything that was found out about a cluster before a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.preflight.examination import Contact, Examination


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of one task's agent, or the reason why it has not answered."""

    problem: str = ""
    examination: Examination | None = None
    run: str = ""
    host: str = ""
    clock: float | None = None
    """Seconds by which the host's clock is before the asker's."""
    doubt: float = 0.0
    """Largest error of the clock's difference in seconds: half of the round trip."""
    way: str = ""
    """Way to the agent in words, where it could not be dialled: `through worker:0`."""


@dataclass(frozen=True, slots=True)
class MeasuredTransfer:
    """Rate from one task's host to another's, bits a second; None with the problem."""

    source: Task
    target: Task
    rate: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Checkup:
    """Answers of all agents, and the tasks that each can reach."""

    spec: ClusterSpec
    answers: Mapping[Task, Answer]
    contacts: Mapping[Task, tuple[Contact, ...]] = field(default_factory=dict)
    """Attempts of each task that has answered."""
    left_out: int = 0
    """Pairs that were not tried, because the cluster is large."""
    transfers: tuple[MeasuredTransfer, ...] = ()

    @property
    def examined(self) -> dict[Task, Examination]:
        """Examinations of the tasks whose agents have answered."""
        return {task: each.examination for task, each in self.answers.items() if each.examination is not None}


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a cluster before its start: the cells of the table that show it, and a sentence with the remedy."""

    column: str
    tasks: tuple[Task, ...]
    sentence: str
