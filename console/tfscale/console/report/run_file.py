"""Files that hold a run: recordings, and the JSON lines that the headless console writes."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, SecondPassed, link_state
from tfscale.console.recording.recording_folder import open_recording
from tfscale.console.recording.recording_reader import Recording, RecordingError, is_recording
from tfscale.console.sources.recorded import RecordedSource
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.records.frame import Description
from tfscale.core.wire.json_records import SchemaError, decode, frame_from_json

_logger = logging.getLogger(__name__)
SECOND = 1.0
"""Seconds of a run between two diagnoses, as live."""
Note = Callable[[float], None]
"""Function of the share of a file that has been read, 0 to 1."""


def _ignore(_: float) -> None:
    pass


def open_run(path: Path, note: Note = _ignore) -> RecordedSource:
    """Open an output of `--record`, `watch` or `--headless --out`; `note` gets the share of it that has been read.

    Raises:
        RecordingError: The file is no recording. The source's `run` raises it too, at a line that cannot be read.
    """
    if path.is_dir() or is_recording(path):
        recording = open_recording(path)
        return RecordedSource(recording.spec, _noted(recording, note), recording.begin)
    lines = _lines(path, note)
    _, header = next(lines, (0, {}))
    if header.get("type") != "header":
        raise RecordingError(f"{path}: no recording: its first line is not the header that --headless writes")
    try:
        spec = parse_cluster(header.get("cluster"), name=str(header.get("run")), where=f"{path}: line 1", base=Path())
    except TfscaleError as error:
        raise RecordingError(str(error)) from None
    return RecordedSource(spec, with_seconds(_events(path, lines)))


def with_seconds(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events, with a `SecondPassed` before each that begins another second, and at the end."""
    now = due = -math.inf
    for event in events:
        now = max(now, event.at)
        if now >= due:
            if due > -math.inf:
                yield SecondPassed(now)
            due = now + SECOND
        yield event
    if due > -math.inf:
        yield SecondPassed(now)


def _noted(recording: Recording, note: Note) -> Iterator[Event]:
    length = max(recording.end - recording.begin, 1e-9)
    for event in recording.events():
        note((event.at - recording.begin) / length)
        yield event
    if recording.damage:
        _logger.warning("%s", recording.damage)


def _lines(path: Path, note: Note) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the whole lines; a line that was cut off, as by `kill -9`, is left out."""
    read = 0
    try:
        size = max(path.stat().st_size, 1)
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                read += len(line)
                note(read / size)
                if line.endswith("\n"):
                    yield number, _object(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise RecordingError(f"{path}: cannot be read: {reason}") from None


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RecordingError(f"{path}: line {number} is not a JSON object")
    return document


def _events(path: Path, lines: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[Event]:
    for number, document in lines:
        try:
            if (event := _event(document)) is not None:
                yield event
        except (SchemaError, UsageError, KeyError, ValueError, TypeError, OverflowError) as error:
            raise RecordingError(f"{path}: line {number}: {error}") from None


def _event(document: dict[str, Any]) -> Event | None:
    """Return the event of a line, None for a line of a diagnosis: the rules make the diagnoses anew."""
    match document.get("type"):
        case "frame":
            task, frame = frame_from_json(document)
            return FrameArrived(frame.at, Task.parse(task), frame)
        case "agent":
            # None: the cluster of the header, which no rule compares.
            placement = document.get("placement") or ""
            text = placement if isinstance(placement, str) else json.dumps(placement)
            description = decode(Description, {**document, "cluster": "", "placement": text})
            return AgentDescribed(float(document["time"]), Task.parse(document["task"]), description)
        case "link":
            state = link_state(document["state"])
            return LinkChanged(float(document["time"]), Task.parse(document["task"]), state, document["reason"])
    return None
