"""Sink of probes' reports, which listens as an agent does and keeps them all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tfscale
from report_listener import ReportListener
from tfscale.v1 import report_pb2, telemetry_pb2

PHASES = ("update", "host", "input", "compute", "reduce")


class Row(NamedTuple):
    """One step of one subject; seconds, NaN where unknown."""

    sequence: int
    end: float
    update: float
    host: float
    input: float
    compute: float
    reduce: float


class ReportSink:
    """The agent's socket for one training process, and the reports that came through it."""

    def __init__(self, socket: Path, task: str) -> None:
        self.socket, self.task = socket, task
        self.rows: dict[str, list[Row]] = {}
        self.statuses: list[tuple[float, telemetry_pb2.ProbeStatus]] = []
        """Statuses, each with the time at which it came."""
        self.activities: dict[tuple[int, float], telemetry_pb2.Activity] = {}
        """Newest report of each activity, by kind and begin."""
        self.lost = 0
        self._listener = ReportListener(socket, self._take)

    def environment(self) -> dict[str, str]:
        """Return the variables that an agent would set for the process."""
        site = next(
            Path(part) / "trainer/probe/entry/site" for part in tfscale.__path__ if (Path(part) / "trainer").is_dir()
        )
        return {
            "TFSCALE_TASK": self.task,
            "TFSCALE_GENERATION": "1",
            "TFSCALE_ATTEMPT": "1",
            "TFSCALE_REPORT": str(self.socket),
            "TFSCALE_PROBE_PATH": os.pathsep.join(tfscale.__path__),
            "PYTHONPATH": str(site),
        }

    def close(self) -> None:
        self._listener.close(grace=2)

    def _take(self, report: report_pb2.TaskReport) -> None:
        if report.HasField("probe"):
            self.statuses.append((time.time(), report.probe))
        for activity in report.activities:
            self.activities[activity.kind, activity.begin] = activity
        for batch in report.steps:
            self.rows.setdefault(batch.subject, []).extend(rows(batch))
            self.lost += batch.lost


def rows(batch: telemetry_pb2.StepBatch) -> Iterator[Row]:
    """Return the rows of a batch; a column that is empty is unknown in all of them."""
    unknown = [float("nan")] * len(batch.sequence)
    columns = [list(getattr(batch, name)) or unknown for name in Row._fields]
    return map(Row._make, zip(*columns, strict=True))
