"""Seats of tasks, as agents tell them: a task that was placed on another host is heard there, and not on the first."""

from __future__ import annotations

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.placement import Placement, PlacementError, file_placement, parse_placement


class SeatWatch:
    """Memory of the newest placement, and of when it moved each task."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._newest: Placement | None = None
        self._told = ""
        """Placement that an agent has told last, as JSON: most tell the same."""
        self._moved: dict[str, float] = {}

    def note(self, told: str, now: float) -> None:
        """Take in the placement of an agent's description at `now`; an empty one is that of the cluster file."""
        if self._newest is not None and told == self._told:
            return
        self._told = told
        try:
            placement = parse_placement(told, self._spec) if told else file_placement(self._spec)
        except PlacementError:  # of another cluster file, which the link's state tells
            return
        before = self._newest
        if before is not None and not placement.is_newer(before):
            return
        self._newest = placement
        seats = before.seats if before else placement.seats
        self._moved |= {str(task): now for task, seat in placement.seats.items() if seats.get(task, seat) != seat}

    def has_moved(self, task: str, since: float) -> bool:
        """Decide whether a task was placed on another agent after `since`, Unix seconds on the observer's clock."""
        return self._moved.get(task, 0.0) > since
