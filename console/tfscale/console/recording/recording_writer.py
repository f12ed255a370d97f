"""The writer of recordings, at work while the console watches."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections import deque
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import zstandard
from tfscale.console.engine.events import AgentDescribed, Event, LinkChanged, Rewound
from tfscale.console.recording.recording_budget import RecordingBudget, thinned
from tfscale.console.recording.recording_reader import HEAD, MORE, OPEN, SIGNATURE, block_of
from tfscale.console.recording.recording_tail import RecordingTail
from tfscale.console.wire.entries import Header, encode, encode_header
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.version import installed_version

CHAPTER = 60.0
"""Seconds of one chapter."""
FLUSH = 0.5
"""Seconds between two writes: a `kill -9` loses as much."""
_LEVEL = 1
"""Level of zstd. Level 3 takes three times as long, and saves nothing in columns of measured times."""


class RecordingWriterError(TfscaleError):
    """Failure to write a recording."""


class RecordingWriter:
    """Writer that appends every event to a file. `take` only remembers, `flush` writes."""

    def __init__(
        self,
        path: Path,
        spec: ClusterSpec,
        begun: float,
        known_links: Sequence[Event] = (),
        tail: RecordingTail | None = None,
    ) -> None:
        """Create the file, or go on after its `tail`; `known_links` are the connections and agents known already.

        Raises UsageError where a new file exists, or the file cannot be opened.
        """
        self._file = _created(path) if tail is None else _reopened(path, tail.size)
        self.path = path
        self.written = 0 if tail is None else tail.size
        """Bytes so far."""
        self._cluster = spec.to_json()
        self._waiting: deque[Event] = deque()
        self._writing = threading.Lock()
        self._known_links: dict[tuple[type, Task], Event] = {}
        self._remember(known_links)
        self._chapter_ends = -math.inf
        self._budget = RecordingBudget(begun, len(spec.tasks))
        if tail is None:
            header = Header(SCHEMA_VERSION, installed_version() or "", begun, self._cluster)
            self._write(SIGNATURE + block_of(HEAD, begun, encode_header(header)))

    def write(self, event: Event) -> None:
        """Remember an event for the next `flush`."""
        if not isinstance(event, Rewound):
            self._waiting.append(event)

    def flush(self) -> None:
        """Write the waiting events. May run in a thread of its own. Raises RecordingWriterError."""
        with self._writing:
            if self._waiting:
                self._flush()

    def _flush(self) -> None:
        if not os.fstat(self._file.fileno()).st_nlink:
            raise RecordingWriterError(f"{self.path}: was removed, with all that it had recorded")
        events = [self._waiting.popleft() for _ in range(len(self._waiting))]
        at = events[-1].at
        if at >= self._chapter_ends:
            self._open_chapter(events[0].at)
        share = self._budget.share(self.written, at)
        affordable = [thinned(event, share) for event in events] if share > 1 else events
        self._write(block_of(MORE, at, self._compress(affordable)))
        self._remember(events)

    def close(self) -> None:
        """Write the waiting events, and close the file. Raises RecordingWriterError."""
        try:
            self.flush()
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close the file without what waits."""
        self._file.close()

    def _open_chapter(self, at: float) -> None:
        self._chapter_ends = at + CHAPTER
        self._stream = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._write(block_of(OPEN, at, self._compress(list(self._known_links.values()))))

    def _compress(self, events: list[Event]) -> bytes:
        data = encode(events, self._cluster)
        return self._stream.compress(data) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def _remember(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, LinkChanged | AgentDescribed):
                self._known_links[type(event), event.task] = event

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise RecordingWriterError(f"{self.path}: {error.strerror}: what came after that is not recorded") from None
        self.written += len(data)


def _created(path: Path) -> FileIO:
    try:
        return path.open("xb", buffering=0)
    except FileExistsError:
        raise UsageError(f"{path} is there already: recordings are not written over, give another name") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be recorded to: {error.strerror}") from None


def _reopened(path: Path, size: int) -> FileIO:
    """Open the file to write after so many bytes; the rest, a block that was cut off, is gone."""
    try:
        file = path.open("r+b", buffering=0)
        file.truncate(size)
        file.seek(size)
    except OSError as error:
        raise UsageError(f"{path}: cannot be recorded to: {error.strerror}") from None
    return file


class ActiveRecording:
    """Present recording, if any. It can begin and end while the console watches."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._recorder: RecordingWriter | None = None
        self.problem: str | None = None
        """Reason why the last recording ended before `end`."""

    @property
    def path(self) -> Path | None:
        """File that is written, None while nothing is recorded."""
        return self._recorder.path if self._recorder else None

    @property
    def cluster(self) -> str:
        """The cluster file as JSON."""
        return self._spec.to_json()

    @property
    def written(self) -> int:
        """Bytes of that file; 0 without one."""
        return self._recorder.written if self._recorder else 0

    def begin(
        self, path: Path, at: float, known_links: Sequence[Event] = (), tail: RecordingTail | None = None
    ) -> None:
        """Begin to record, or go on after the `tail` of a recording. Raises TfscaleError."""
        self._recorder = RecordingWriter(path, self._spec, at, known_links, tail)
        self.problem = None

    def end(self) -> None:
        """Write the waiting events, and close the file, if there is one."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            try:
                recorder.close()
            except RecordingWriterError as error:
                self.problem = str(error)

    def write(self, event: Event) -> None:
        if self._recorder is not None:
            self._recorder.write(event)

    async def run(self) -> None:
        """Write twice a second, until cancelled."""
        try:
            while True:
                await asyncio.sleep(FLUSH)
                # A second of a thousand tasks takes longer to compress than a key may wait.
                await asyncio.to_thread(self.flush)
        finally:
            self.end()

    def flush(self) -> None:
        """Write the waiting events; where that fails, `problem` says so."""
        if (recorder := self._recorder) is None:
            return
        try:
            recorder.flush()
        except RecordingWriterError as error:
            self._recorder = None
            self.problem = str(error)
            recorder.abandon()
