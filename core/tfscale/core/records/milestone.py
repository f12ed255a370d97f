"""Milestone of a task: its agent remembers milestones for hours, and frames for minutes."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import UNHEARD
from tfscale.core.records.schema import Time
from tfscale.core.records.task_status import TaskStatus


@dataclass(frozen=True, slots=True)
class Milestone:
    """Change of a task's state, or of the hosts that its host hears."""

    at: Time
    status: TaskStatus
    unheard: tuple[str, ...] = ()
    """Tasks on hosts that no longer answer this task's host."""

    @classmethod
    def of(cls, frame: Frame) -> Milestone:
        """Return the state in a frame."""
        neighbours = frame.host.neighbours if frame.host and frame.misses_neighbour else ()
        missed = (each.task for each in neighbours if each.reached is not None and frame.at - each.reached > UNHEARD)
        return cls(frame.at, frame.status, tuple(missed))

    def is_change(self, before: Milestone | None) -> bool:
        """Decide whether the milestone differs in anything from the one before."""
        return before is None or (self.status, self.unheard) != (before.status, before.unheard)
