"""Lines of `tfscale-console --headless`, as columns and diagnoses."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

COLUMNS = ("sequence", "end", "update", "host", "input", "compute", "reduce")
PHASES = COLUMNS[2:]


@dataclass
class Recording:
    """Columns of steps by subject, and diagnoses in the order in which they were written."""

    steps: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    diagnoses: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Recording:
        found = cls()
        for line in path.read_text().splitlines(keepends=True):
            # The console may be in the midst of the last one.
            if line.endswith("\n"):
                found._add(json.loads(line))
        return found

    def _add(self, line: dict[str, Any]) -> None:
        if line["type"] == "diagnosis":
            self.diagnoses.append(line)
        if line["type"] == "frame":
            self.frames.append(line)
            for batch in line["steps"]:
                columns = self.steps.setdefault(batch["subject"], {name: [] for name in COLUMNS})
                for name in COLUMNS:
                    columns[name] += batch[name] or [None] * len(batch["sequence"])

    @property
    def first_step_of_all(self) -> float:
        """Time of the first step of the subject that began last."""
        return max(columns["end"][0] for columns in self.steps.values())

    def step_time(self, subject: str) -> float:
        """Return the median seconds of a step."""
        ends = self.steps[subject]["end"]
        return statistics.median(after - before for before, after in pairwise(ends))

    def median(self, subject: str, phase: str, since: float = 0.0) -> float:
        """Return the median of a phase's known values, seconds."""
        columns = self.steps[subject]
        known = zip(columns["end"], columns[phase], strict=True)
        return statistics.median(value for end, value in known if value is not None and end >= since)

    def assert_phases_known(self, subject: str) -> None:
        """Require known phases in nearly all steps but the first; on a busy machine a stamp may come too late."""
        for phase in PHASES:
            values = self.steps[subject][phase][1:]
            known = [value for value in values if value is not None]
            assert len(known) >= 0.98 * len(values), (subject, phase, len(known), len(values))
            assert min(known) >= 0, (subject, phase)

    def frames_of(self, task: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["task"] == task]

    def status(self, task: str) -> dict[str, Any]:
        """Return the newest status of a task."""
        newest: dict[str, Any] = self.frames_of(task)[-1]["status"]
        return newest

    @property
    def exited(self) -> set[str]:
        """Tasks whose newest status says that they have exited."""
        newest = {frame["task"]: frame["status"]["state"] for frame in self.frames}
        return {task for task, state in newest.items() if state == "exited"}

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [diagnosis for diagnosis in self.diagnoses if diagnosis["kind"] == kind]
