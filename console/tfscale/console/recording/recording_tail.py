"""End of a recording: what a writer has to know to go on with it, and what is in it already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged
from tfscale.console.recording.recording_reader import Recording
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Description

_LOOKS = (0.0, 120.0, 660.0)
"""Seconds before the end that are read until a frame of each agent is found: agents keep ten minutes."""


@dataclass(frozen=True, slots=True)
class RecordingTail:
    """End of a recording."""

    recording: Recording
    size: int
    """Bytes up to the end of the last whole block."""
    links: tuple[Event, ...]
    """Newest connection and description of each agent."""
    frames: Mapping[Task, FrameArrived]
    """Newest frame of each task."""

    @property
    def end(self) -> float:
        """Arrival of the last event, Unix seconds."""
        return self.recording.end

    @property
    def agents(self) -> Mapping[Task, Description]:
        """Newest description of each agent."""
        return {event.task: event.description for event in self.links if isinstance(event, AgentDescribed)}


def read_tail(path: Path) -> RecordingTail:
    """Return the end of a recording. Raises RecordingError."""
    recording = Recording(path)
    links: dict[tuple[type, Task], Event] = {}
    frames: dict[Task, FrameArrived] = {}
    for look in _LOOKS:
        links.clear()
        for event in recording.events(max(recording.begin, recording.end - look)):
            if isinstance(event, FrameArrived):
                frames[event.task] = event
            elif isinstance(event, LinkChanged | AgentDescribed):
                links[type(event), event.task] = event
        if all(task in frames for kind, task in links if kind is AgentDescribed):
            break
    return RecordingTail(recording, recording.size, (*links.values(),), frames)
