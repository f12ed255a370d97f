"""Recordings of one run, one after the other in a folder, read as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tfscale.console.engine.events import Event
from tfscale.console.recording.recording_reader import SUFFIX, Recording, RecordingError, is_recording

RECORDINGS = "{:04}" + SUFFIX
"""Name of a recording in a folder, by its number."""


def recordings_in(folder: Path) -> list[Path]:
    """List the recordings of a folder, the oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


class RecordingFolder(Recording):
    """Recordings of a folder as one. A reader that is there while it is written reads what was there at its begin."""

    def __init__(self, path: Path) -> None:
        """Open the recordings. Raises RecordingError where there is none, or the newest is damaged at its begin."""
        files = [each for each in recordings_in(path) if is_recording(each)]
        if not files:
            raise RecordingError(f"{path}: holds no recording of a watched run")
        parts = []
        for file in files:
            try:
                parts.append(Recording(file))
            except RecordingError:
                if len(files) == 1:
                    raise
        if not parts:
            raise RecordingError(f"{path}: its recordings hold no event")
        self._parts = parts
        first, last = parts[0], parts[-1]
        self.path, self.version, self.cluster, self.spec = path, last.version, last.cluster, last.spec
        self.begin, self.end, self.damage = first.begin, last.end, None

    def events(self, since: float | None = None) -> Iterator[Event]:
        """Yield the events of all recordings, from the chapter that holds `since`."""
        for part in self._parts:
            if since is None or part.end >= since or part is self._parts[-1]:
                yield from part.events(since)
                self.damage = self.damage or part.damage


def open_recording(path: Path) -> Recording:
    """Open a recording, or the folder of a run. Raises RecordingError."""
    return RecordingFolder(path) if path.is_dir() else Recording(path)
