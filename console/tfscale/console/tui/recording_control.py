"""The operator's control of the recording: one key begins it and ends it."""

from __future__ import annotations

import time
from pathlib import Path

from tfscale.console.engine.engine import Engine
from tfscale.console.recording.recording_reader import SUFFIX
from tfscale.console.recording.recording_writer import ActiveRecording


class RecordingControl:
    """Control of the recording of an engine's cluster."""

    def __init__(self, tape: ActiveRecording, engine: Engine) -> None:
        self._tape = tape
        self._engine = engine

    @property
    def path(self) -> Path | None:
        """File that is being written; None while nothing is recorded."""
        return self._tape.path

    async def run(self) -> None:
        """Write what is recorded, for ever."""
        await self._tape.run()

    def turn(self) -> str:
        """Begin a recording in this folder, or end the present one, and return that in words. Raises TfscaleError."""
        if (path := self._tape.path) is not None:
            self._tape.end()
            return self._tape.problem or f"recorded to {path}"
        source = self._engine.source
        now = source.now()
        path = Path(f"{source.spec.name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}{SUFFIX}")
        self._tape.begin(path, now, self._engine.state.known_links(now))
        return f"recording to {path}; R ends it"

    def new_problem(self) -> str | None:
        """Return what went wrong since the last question; else None."""
        problem, self._tape.problem = self._tape.problem, None
        return problem
