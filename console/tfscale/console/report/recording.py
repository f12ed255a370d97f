"""Recorded runs: their cluster, and what reached the console in order of arrival."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.console.events import Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.recording import Recording, RecordingError, is_recording
from tfscale.core.cluster import ClusterSpec, parse_cluster
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.task import Task
from tfscale.core.wire.json_records import SchemaError, frame_from_json


@dataclass(frozen=True, slots=True)
class Recorded:
    """A cluster, and what was recorded of it."""

    spec: ClusterSpec
    events: Iterator[Event]
    """Raises RecordingError where the file goes on wrongly."""


def open_recording(path: Path) -> Recorded:
    """What `--record` or `--headless --out` wrote. Raises RecordingError."""
    if is_recording(path):
        recording = Recording(path)
        return Recorded(recording.spec, recording.events())
    lines = _lines(path)
    _, header = next(lines, (0, {}))
    if header.get("type") != "header":
        raise RecordingError(f"{path}: no recording: its first line is not the header that --headless writes")
    try:
        spec = parse_cluster(header.get("cluster"), name=str(header.get("run")), where=f"{path}: line 1", base=Path())
    except TfscaleError as error:
        raise RecordingError(str(error)) from None
    return Recorded(spec, _events(path, lines))


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The whole lines; one that was cut off at the end, as by `kill -9`, is left out."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith("\n"):
                    yield number, _object(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise RecordingError(f"{path}: cannot be read: {why}") from None


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
        except (SchemaError, UsageError, KeyError, ValueError, TypeError) as error:
            raise RecordingError(f"{path}: line {number}: {error}") from None


def _event(document: dict[str, Any]) -> Event | None:
    """What the rules need; they make the diagnoses anew."""
    match document.get("type"):
        case "frame":
            task, frame = frame_from_json(document)
            return FrameArrived(frame.at, Task.parse(task), frame)
        case "link":
            state = LinkState(document["state"])
            return LinkChanged(float(document["time"]), Task.parse(document["task"]), state, document["reason"])
    return None
