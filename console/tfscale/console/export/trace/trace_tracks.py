"""Tracks of a trace: a group for the cluster and one for each task, in which slices never overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfscale.console.export.trace.step_slices import StepTrack, SubjectSteps
from tfscale.console.wire.perfetto_writer import Argument, PerfettoWriter, nanoseconds
from tfscale.console.wire.profile_file import Op

MAIN = ""
"""Name of the group's own track, which is seen before the group is opened."""
STATE, PARTS, ACTIVITIES, FINDINGS, NUMBERS, PROFILE = range(6)
"""Places of the other tracks in their group, from above."""


class TrackGroup:
    """Tracks of one task, or of the cluster."""

    def __init__(self, writer: PerfettoWriter, name: str, rank: int) -> None:
        """Write the group's own track; groups of a low `rank` are above."""
        self._writer = writer
        self._group = writer.group(name, rank)
        self._lanes: dict[str, list[_Lane]] = {}
        self._steps: dict[str, StepTrack] = {}
        self._counters: dict[str, int] = {}

    @property
    def left_out(self) -> int:
        """Steps that end before one that was written, since a clock was set."""
        return sum(steps.left_out for steps in self._steps.values())

    def slice(
        self, track: str, rank: int, name: str, begin: float, end: float, arguments: Mapping[str, Argument]
    ) -> None:
        """Write a slice to the track of this name, or beside it where another slice has not ended there."""
        lanes = self._lanes.setdefault(track, [])
        lane = next((each for each in lanes if each.end <= begin), None)
        if lane is None:
            is_own = track == MAIN and not lanes
            lane = _Lane(self._group if is_own else self._writer.track(self._group, track, rank))
            lanes.append(lane)
        lane.end = max(begin, end)
        self._writer.slice(lane.track, name, nanoseconds(begin), nanoseconds(lane.end), arguments)

    def steps(self, subject: str, steps: SubjectSteps) -> None:
        """Write steps of the task, or of a replica or stage in it."""
        if subject not in self._steps:
            part = subject.partition("/")[2]
            track = self._writer.track(self._group, part, PARTS) if part else self._group
            self._steps[subject] = StepTrack(self._writer, track)
        self._steps[subject].write(steps)

    def profile(self, name: str, ops: Iterable[Op], ahead: float) -> None:
        """Write what a thread or a device did, by a clock that is so many seconds ahead."""
        track, moved = self._writer.track(self._group, f"profile: {name}", PROFILE), nanoseconds(ahead)
        for op in ops:
            self._writer.slice(track, op.name, op.begin - moved, op.end - moved, {})

    def count(self, track: str, unit: str, at: float, value: float) -> None:
        """Write a number to the track of this name."""
        if track not in self._counters:
            self._counters[track] = self._writer.counter(self._group, track, unit, NUMBERS)
        self._writer.count(self._counters[track], nanoseconds(at), value)


class _Lane:
    """Track of slices, of which the newest ends at `end`."""

    def __init__(self, track: int) -> None:
        self.track = track
        self.end = 0.0
