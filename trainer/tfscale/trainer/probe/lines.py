"""Reports as JSON lines in a file: the frames that an agent would stream, without the host that it samples."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from array import array
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from tfscale.core.records import (
    SCHEMA_VERSION,
    Activity,
    ActivityKind,
    Collective,
    Coordinator,
    Frame,
    ProbeState,
    ProbeStatus,
    ServerTraffic,
    StepBatch,
    TaskState,
    TaskStatus,
    Training,
    WorkerFunctions,
)
from tfscale.core.wire.json_records import frame_to_json
from tfscale.trainer.probe import workers
from tfscale.trainer.probe.columns import Columns, report_batches
from tfscale.trainer.probe.report import Report
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import PHASES


class Lines:
    """A sink that writes one line a report, flushed at once.

    Raises OSError when the file cannot be made. What cannot be written later ends the writing, and is told once.
    """

    def __init__(self, path: Path, task: str, generation: int = 0, attempt: int = 1) -> None:
        self.refused: str | None = None
        """Never: whoever measures again may do it into a file that can be written."""
        self._is_broken = False
        self._task = task
        self._status = TaskStatus(TaskState.RUNNING, generation, attempt, os.getpid(), time.time())
        self._probe: ProbeStatus | None = None
        self._training: Training | None = None
        self._sequence = 0
        self._path = path
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._write({"type": "header", "schema": SCHEMA_VERSION, "version": version("tfscale"), "tasks": [task]})

    def send(self, report: Report) -> None:
        """Write a frame."""
        if not self._is_broken:
            self._write(frame_to_json(self._task, self._frame(report)))

    def close(self, _timeout: float) -> None:
        """Close the file."""
        # What could not be written is tried again here, and has been told of.
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, document: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(document) + "\n")
            self._file.flush()
        except OSError as error:
            self._is_broken = True
            told = f"{self._path}: {error.strerror}"
            print(f"tfscale: nothing more is written to {told}; the training goes on", file=sys.stderr)

    def _frame(self, report: Report) -> Frame:
        self._probe = _probe_status(report.status) if report.status else self._probe
        self._training = Training(*report.training) if report.training else self._training
        self._sequence += 1
        return Frame(
            sequence=self._sequence - 1,
            at=time.time(),
            status=self._status,
            probe=self._probe,
            collective=Collective(*report.collective),
            steps=tuple(self._batch(columns) for columns in report_batches(self._task, report)),
            training=self._training,
            activities=tuple(Activity(ActivityKind(each.kind), each.begin, each.end) for each in report.activities),
            coordinator=_coordinator(report.coordinator) if report.coordinator else None,
        )

    def _batch(self, columns: Columns) -> StepBatch:
        arrays = {name: array("f", columns[name]) for name in (*PHASES, "pull") if name in columns}
        return StepBatch(self._status.generation, self._status.attempt, self._task, **{**columns, **arrays})


def _probe_status(status: Status) -> ProbeStatus:
    state = ProbeState.MEASURING if status.measuring else ProbeState.WAITING
    program = status.program
    return ProbeStatus(
        state=ProbeState.DISABLED if status.disabled else state,
        message=status.disabled,
        strategy=program.strategy if program else None,
        replicas=program.replicas if program else None,
        local_replicas=program.local_replicas if program else None,
        ranks=program.replicas if program else None,
        reduced_bytes_per_step=status.reduced_bytes_per_step,
        examples_per_step=status.examples_per_step,
        tensorflow=status.tensorflow,
        keras=status.keras,
        warnings=status.warnings,
        collective=program.collective if program else None,
    )


def _coordinator(told: workers.Coordinator) -> Coordinator:
    functions = tuple(_functions(each) for each in told.workers)
    return Coordinator(told.at, told.queued, told.waited, told.waiting_since, functions)


def _functions(told: workers.WorkerFunctions) -> WorkerFunctions:
    traffic = tuple(ServerTraffic(*each) for each in told.traffic)
    return WorkerFunctions(told.worker, told.finished, told.failed, told.busy, told.idle, told.since, traffic)
