"""Folder of one watched run: its recordings, the oldest of which give way, and at its end its report."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged
from tfscale.console.engine.model import TaskView
from tfscale.console.recording.recording_folder import RECORDINGS, recordings_in
from tfscale.console.recording.recording_reader import RecordingError
from tfscale.console.recording.recording_tail import RecordingTail, read_tail
from tfscale.console.recording.recording_writer import ActiveRecording, RecordingWriterError
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.version import installed_version

_logger = logging.getLogger(__name__)
FACTS = "run.json"
REPORTS = ("report.html", "report.txt")
"""Files of a report, in the order in which they are written."""
_RETRY = 60.0
"""Seconds between two attempts to record where the disk is full."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run, in the file `run.json`."""

    name: str
    fingerprint: str
    begun: float
    """Unix seconds."""
    ended: float | None = None
    """Unix seconds; None while it runs, as far as it was heard."""
    how: str = ""
    """Manner of its end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what is kept of a run."""

    rotate: int
    """Bytes of a recording at which the next one begins."""
    keep: int
    """Recordings that are kept besides the newest."""


class RunFolder:
    """Folder of one run, of which each event is recorded once, also where a watch before has died."""

    def __init__(self, path: Path, facts: RunFacts, tape: ActiveRecording, limits: Limits) -> None:
        """Take a folder, which may be there; nothing is written before `begin`."""
        self.path, self.facts, self.tape = path, facts, tape
        self._limits = limits
        self.tail = _newest_tail(path)
        """End of what a watch before has recorded; None without any."""
        self._agents: dict[Task, tuple[int, float]] = {}
        """Agent from which a task's events come, by its process."""
        self._links: dict[tuple[type, Task], Event] = {}
        """Newest connections and agents from before the end of the recording, which are written after it."""
        self._retry_at = math.inf

    @property
    def known_until(self) -> float:
        """Arrival of the last recorded event, Unix seconds."""
        return -math.inf if self.tail is None else self.tail.end

    def is_of(self, views: Sequence[TaskView]) -> bool:
        """Decide whether one of these agents, or of their tasks' processes, is in the recording."""
        return any(self._knows_agent(view) or self._has_process(view) for view in views)

    def is_recorded(self, views: Sequence[TaskView]) -> bool:
        """Decide whether the process of one of these tasks is in the recording."""
        return any(map(self._has_process, views))

    def _has_process(self, view: TaskView) -> bool:
        known = self.tail.frames.get(view.task) if self.tail else None
        return bool(known and view.status and _process(view.status) == _process(known.frame.status))

    def _knows_agent(self, view: TaskView) -> bool:
        known, heard = self.tail.agents.get(view.task) if self.tail else None, view.description
        return bool(known and heard and (known.pid, known.started) == (heard.pid, heard.started))

    def begin(self, at: float, links: Sequence[Event], events: Sequence[Event]) -> None:
        """Begin to record, or go on after the end of what is recorded, with what has come so far.

        `links` are the connections and agents from before the `events`. Raises TfscaleError.
        """
        self.facts = replace(self.facts, ended=None, how="")
        self._make()
        if self.tail is not None and self._may_append(self.tail):
            recording = self.tail.recording
            self.tape.begin(recording.path, recording.begin, self.tail.links, self.tail)
        else:
            self._begin_file(at, links)
        for event in events if self.tail is None else (*links, *events):
            self.write(event)

    def _make(self) -> None:
        """Make the folder, with the facts and without a report of before. Raises RecordingWriterError."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in REPORTS:
                (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise RecordingWriterError(f"{self.path}: {error.strerror}") from None
        self._write_facts()

    def _may_append(self, tail: RecordingTail) -> bool:
        is_own = (tail.recording.cluster, tail.recording.version) == (self.tape.cluster, installed_version() or "")
        return is_own and tail.size < self._limits.rotate

    def _begin_file(self, at: float, links: Sequence[Event]) -> None:
        """Begin the next recording, and remove those beyond the kept ones. Raises TfscaleError."""
        self._make()
        files = recordings_in(self.path)
        number = 1 + (int(files[-1].stem) if files else 0)
        self.tape.begin(self.path / RECORDINGS.format(number), at, links)
        for path in files[: max(0, len(files) - self._limits.keep)]:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _logger.warning("%s is kept: %s", path, error.strerror)

    def write(self, event: Event) -> None:
        """Record an event that is not recorded yet."""
        tail = self.tail
        if tail is None:
            self.tape.write(event)
            return
        if isinstance(event, AgentDescribed):
            self._agents[event.task] = event.description.pid, event.description.started
        if event.at > tail.end:
            self._write_links(tail.end)
        if isinstance(event, FrameArrived):
            if not self._has_frame(event, tail):
                self.tape.write(event if event.at >= tail.end else replace(event, at=tail.end))
        elif event.at > tail.end:
            self.tape.write(event)
        elif isinstance(event, LinkChanged | AgentDescribed):
            self._links[type(event), event.task] = event

    def _has_frame(self, event: FrameArrived, tail: RecordingTail) -> bool:
        agent, last = tail.agents.get(event.task), tail.frames.get(event.task)
        if agent is None or last is None or self._agents.get(event.task) != (agent.pid, agent.started):
            return False
        return event.frame.sequence <= last.frame.sequence

    def _write_links(self, at: float) -> None:
        links, self._links = [*self._links.values()], {}
        for link in links:
            self.tape.write(replace(link, at=at))

    def keep_up(self, at: float, links: Callable[[float], Sequence[Event]]) -> None:
        """Begin the next recording where the present one is long enough, or could not be written a minute ago."""
        if self.tape.problem is not None:
            _logger.error("%s; tried again in %.0f s", self.tape.problem, _RETRY)
            self.tape.problem, self._retry_at = None, at + _RETRY
        if self.tape.written >= self._limits.rotate or at >= self._retry_at:
            self.tape.end()
            is_again, self._retry_at = at >= self._retry_at, math.inf
            try:
                self._begin_file(at, links(at))
                if is_again:
                    _logger.info("recorded again, in %s", self.tape.path)
            except TfscaleError as error:
                self.tape.problem = str(error)

    def end(self, at: float, how: str) -> None:
        """Close the recording, and write down when and how the run has ended."""
        self.tape.end()
        self.tail = _newest_tail(self.path)
        self.facts = replace(self.facts, ended=at, how=how)
        self._write_facts()

    def _write_facts(self) -> None:
        try:
            write_whole(self.path / FACTS, json.dumps(asdict(self.facts), indent=1) + "\n")
        except OSError as error:
            _logger.error("%s: %s", self.path / FACTS, error.strerror)


def read_facts(folder: Path) -> RunFacts | None:
    """Return the facts about the run of a folder; None where it is no folder of a run."""
    try:
        document = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        return RunFacts(
            str(document["name"]), str(document["fingerprint"]), float(document["begun"]),
            None if document["ended"] is None else float(document["ended"]), str(document["how"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _newest_tail(folder: Path) -> RecordingTail | None:
    """Return the end of the newest recording that holds an event."""
    for path in reversed(recordings_in(folder)):
        try:
            return read_tail(path)
        except RecordingError as error:
            _logger.warning("%s", error)
    return None


def _process(status: TaskStatus) -> tuple[object, ...]:
    return status.generation, status.attempt, status.started
