"""Programs of several workers whose probes report to sinks, without agents."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import ENVIRONMENT
from loopback import free_addresses
from report_sink import PHASES, ReportSink, Row


@dataclass
class MeasuredWorker:
    """Worker that has ended."""

    sink: ReportSink
    exit_code: int
    log: str

    @property
    def rows(self) -> list[Row]:
        """Steps of the worker as a whole."""
        return self.sink.rows.get(self.sink.task, [])


def measured(
    folder: Path, program: Path, *words: str, workers: int = 1, variables: Mapping[str, str] | None = None
) -> list[MeasuredWorker]:
    """Run a program as all workers of a cluster, or without one if there is one worker, until they have ended."""
    addresses = [*free_addresses(workers)]
    sinks = [ReportSink(folder / f"{index}.sock", f"worker:{index}") for index in range(workers)]
    logs = [folder / f"{index}.log" for index in range(workers)]
    with contextlib.ExitStack() as stack:
        processes = []
        for index, (sink, log) in enumerate(zip(sinks, logs, strict=True)):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            cluster = {"TF_CONFIG": json.dumps(task)} if workers > 1 else {}
            environment = os.environ | ENVIRONMENT | cluster | (variables or {}) | sink.environment()
            out = stack.enter_context(log.open("w"))
            command = [sys.executable, program, *words]
            processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT))
        try:
            codes = [process.wait(180) for process in processes]
        finally:
            for process in processes:
                process.kill()
            for sink in sinks:
                sink.close()
    return [MeasuredWorker(sink, code, log.read_text()) for sink, code, log in zip(sinks, codes, logs, strict=True)]


def middle_phases(rows: Sequence[Row]) -> dict[str, float]:
    """Return the median of each phase in milliseconds, NaN where it is never known."""
    known = {phase: [each for row in rows if not math.isnan(each := getattr(row, phase))] for phase in PHASES}
    return {phase: 1000 * statistics.median(values) if values else math.nan for phase, values in known.items()}
