"""Writes a recording while the console watches."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import zstandard
from tfscale.console.events import AgentDescribed, Event, LinkChanged, Rewound
from tfscale.console.recording import HEAD, MORE, OPEN, SIGNATURE, block_of
from tfscale.console.thinning import Allowance, thinned
from tfscale.console.version import installed_version
from tfscale.console.wire.entries import Header, encode, encode_header
from tfscale.core.cluster import ClusterSpec
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.records import SCHEMA_VERSION
from tfscale.core.task import Task

CHAPTER = 60.0
"""Seconds."""
FLUSH = 0.5
"""Seconds of events that a `kill -9` may lose."""
_LEVEL = 1
"""Of zstd. Level 3 takes three times as long, and saves nothing in columns of measured times."""


class RecorderError(TfscaleError):
    """A recording that cannot be written."""


class Recorder:
    """Appends every event to a new file. `take` only remembers, `flush` writes."""

    def __init__(self, path: Path, spec: ClusterSpec, begun: float, standing: Sequence[Event] = ()) -> None:
        """`standing` are the connections and agents that are known already. Raises UsageError where the file is there
        already, or cannot be made."""
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise UsageError(f"{path} is there already: recordings are not written over, give another name") from None
        except OSError as error:
            raise UsageError(f"{path}: cannot be recorded to: {error.strerror}") from None
        self.path = path
        self.written = 0
        """Bytes."""
        self._cluster = spec.to_json()
        self._waiting: deque[Event] = deque()
        self._writing = threading.Lock()
        self._standing: dict[tuple[type, Task], Event] = {}
        self._remember(standing)
        self._chapter_ends = begun
        self._allowance = Allowance(begun, len(spec.tasks))
        header = Header(SCHEMA_VERSION, installed_version() or "", begun, self._cluster)
        self._write(SIGNATURE + block_of(HEAD, begun, encode_header(header)))

    def take(self, event: Event) -> None:
        """Remember an event for the next `flush`."""
        if not isinstance(event, Rewound):
            self._waiting.append(event)

    def flush(self) -> None:
        """Write what is waiting. May run in a thread of its own. Raises RecorderError."""
        with self._writing:
            if self._waiting:
                self._flush()

    def _flush(self) -> None:
        events = [self._waiting.popleft() for _ in range(len(self._waiting))]
        at = events[-1].at
        if at >= self._chapter_ends:
            self._open_chapter(events[0].at)
        share = self._allowance.share(self.written, at)
        kept = [thinned(event, share) for event in events] if share > 1 else events
        self._write(block_of(MORE, at, self._compress(kept)))
        self._remember(events)

    def close(self) -> None:
        """Write what is waiting, and end. Raises RecorderError."""
        try:
            self.flush()
        finally:
            self._file.close()

    def _open_chapter(self, at: float) -> None:
        self._chapter_ends = at + CHAPTER
        self._stream = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._write(block_of(OPEN, at, self._compress(list(self._standing.values()))))

    def _compress(self, events: list[Event]) -> bytes:
        data = encode(events, self._cluster)
        return self._stream.compress(data) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def _remember(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, LinkChanged | AgentDescribed):
                self._standing[type(event), event.task] = event

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise RecorderError(f"{self.path}: {error.strerror}: what came after that is not recorded") from None
        self.written += len(data)


class Tape:
    """The recording that is under way, if any: it can be begun and ended while the console watches."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._recorder: Recorder | None = None
        self.problem: str | None = None
        """Why the last recording ended before it was told to."""

    @property
    def path(self) -> Path | None:
        """The file that is written, None while nothing is recorded."""
        return self._recorder.path if self._recorder else None

    def begin(self, path: Path, at: float, standing: Sequence[Event] = ()) -> None:
        """Raises UsageError."""
        self._recorder = Recorder(path, self._spec, at, standing)
        self.problem = None

    def end(self) -> None:
        """Write what is waiting, and close the file, if there is one."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            try:
                recorder.close()
            except RecorderError as error:
                self.problem = str(error)

    def take(self, event: Event) -> None:
        if self._recorder is not None:
            self._recorder.take(event)

    async def run(self) -> None:
        """Write twice a second, until cancelled."""
        try:
            while True:
                await asyncio.sleep(FLUSH)
                # A second of a thousand tasks takes longer to compress than a key may wait.
                await asyncio.to_thread(self._flush)
        finally:
            self.end()

    def _flush(self) -> None:
        recorder = self._recorder
        try:
            if recorder is not None:
                recorder.flush()
        except RecorderError as error:
            self._recorder = None
            self.problem = str(error)
