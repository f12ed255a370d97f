"""Sink that writes reports as JSON lines: the frames of an agent, without the samples of the host."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.core.version import installed_version
from tfscale.core.wire.json_records import frame_to_json
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.step_columns import step_batches


class Lines:
    """Sink that writes a line for each report, and flushes it at once.

    Raises OSError when the file cannot be made. The first line that cannot be written ends the writing, with one
    message.
    """

    def __init__(self, path: Path, task: str, generation: int = 0, attempt: int = 1) -> None:
        self.refused: str | None = None
        """Always None: a later measurement may write to a file that can be written."""
        self._is_broken = False
        self._task = task
        self._status = TaskStatus(TaskState.RUNNING, generation, attempt, os.getpid(), time.time())
        self._probe: ProbeStatus | None = None
        self._training: Training | None = None
        self._sequence = 0
        self._path = path
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._write({"type": "header", "schema": SCHEMA_VERSION, "version": installed_version(), "tasks": [task]})

    def send(self, report: ProbeReport) -> None:
        """Write a frame."""
        if not self._is_broken:
            self._write(frame_to_json(self._task, self._frame(report)))

    def settle(self, _timeout: float) -> None:
        """Do nothing: a line is written at once."""

    def close(self, _timeout: float) -> None:
        """Close the file."""
        # Closing tries again to write what could not be written, which was reported then.
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, document: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(document) + "\n")
            self._file.flush()
        except OSError as error:
            self._is_broken = True
            why = f"{self._path}: {error.strerror}"
            print(f"tfscale: nothing more is written to {why}; the training goes on", file=sys.stderr)

    def _frame(self, report: ProbeReport) -> Frame:
        self._probe = report.status or self._probe
        self._training = report.training or self._training
        self._sequence += 1
        return Frame(
            sequence=self._sequence - 1,
            at=time.time(),
            status=self._status,
            probe=self._probe,
            collective=report.collective,
            steps=tuple(step_batches(self._task, self._status.generation, self._status.attempt, report)),
            training=self._training,
            activities=tuple(report.activities),
            coordinator=report.coordinator,
        )
