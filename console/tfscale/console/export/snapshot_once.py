"""One snapshot of the cluster for scripts and health checks: a JSON object, and whether all is well."""

from __future__ import annotations

from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.analysis.stragglers.straggler_words import looks_slow
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, FrameArrived, LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.engine.stop_condition import has_ended_well, is_explained
from tfscale.console.export.rows import diagnosis_fields
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.task_status import TaskState
from tfscale.core.wire.json_records import Json, encode

PATIENCE = 6.0
"""Seconds to wait for silent agents, from the first snapshot on that is not outdated."""
CATCHING_UP = 60.0
"""Seconds to go through the frames that agents have kept: two tasks of ten minutes took 11 to 18 on two full cores."""
NEWEST = 1.5
"""Age up to which a snapshot counts as the newest possible: it is taken within a second after the one before, and up
to half a second late on a busy host."""
_BEFORE = (TaskState.PENDING, TaskState.STARTING)
"""States of a task that is about to run."""
_GRAVE = SEVERITIES[SEVERITIES.index("warning") :]


class SnapshotOnce:
    """Watch until the past is gone through, each agent has answered or is down, and a second has passed live.

    Where a task has failed, watch until the reason is known, too; and up to `wait` seconds for a verdict.
    """

    def __init__(self, engine: Engine, wait: float = 0.0) -> None:
        self._engine, self._wait = engine, wait
        self._began = engine.source.now()
        self._caught_up: float | None = None
        """Time of the first snapshot that was not outdated."""
        self._was_settled = False
        self.frames = 0
        """Number of frames so far."""
        self.snapshot: Snapshot | None = None

    async def run(self) -> Snapshot | None:
        """Return the snapshot; None where the source ended before the first."""
        await self._engine.run(self)
        return self.snapshot

    def event_folded(self, event: Event) -> None:
        self.frames += isinstance(event, FrameArrived)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        now = self._engine.source.now()
        if snapshot.is_outdated:
            is_over = now - self._began > CATCHING_UP
        else:
            self._caught_up = now if self._caught_up is None else self._caught_up
            is_settled = all(map(_is_settled, snapshot.tasks)) and is_explained(snapshot)
            # What came within the second is judged at its end. A second that was over before does not know of now.
            is_over = self._was_settled or now - self._caught_up >= PATIENCE
            self._was_settled = is_settled and snapshot.age <= NEWEST and snapshot.at >= self._began
        if is_over and (now - self._began >= self._wait or verdict(snapshot) is not None):
            self._engine.stop()


def _is_settled(view: TaskView) -> bool:
    return view.frame is not None if view.link.state is LinkState.UP else view.link.state is not LinkState.CONNECTING


def verdict(snapshot: Snapshot) -> bool | None:
    """Decide whether every task runs or has ended well, and no open diagnosis is graver than `info`.

    None where nobody can say yet: no task has reported, one is about to run, or none has made a step so far.
    """
    if all(view.frame is None for view in snapshot.tasks):
        return None
    tasks = [_is_well(view) for view in snapshot.tasks]
    open_diagnoses = (diagnosis for diagnosis in snapshot.findings.diagnoses if diagnosis.end is None)
    if False in tasks or any(diagnosis.severity in _GRAVE for diagnosis in open_diagnoses):
        return False
    is_begun = snapshot.findings.condition.kind not in (Condition.STARTING, Condition.UNKNOWN)
    return True if is_begun and None not in tasks else None


def _is_well(view: TaskView) -> bool | None:
    if view.link.state is LinkState.UP and (view.status is None or view.status.state in _BEFORE):
        return None
    return view.is_up or (view.has_ended and has_ended_well(view))


def snapshot_line(snapshot: Snapshot) -> Json:
    """Return the snapshot as one JSON object."""
    findings = snapshot.findings
    return {
        "type": "snapshot",
        "schema": SCHEMA_VERSION,
        "time": snapshot.at,
        "age": snapshot.age,
        "run": snapshot.run,
        "strategy": snapshot.strategy,
        "generation": snapshot.generation,
        "healthy": verdict(snapshot),
        "headline": snapshot.moment + findings.headline,
        "suspect": looks_slow(findings.suspect, snapshot.at) if findings.suspect else None,
        "condition": str(findings.condition.kind),
        "step_time": findings.step_time,
        "steps_per_second": findings.steps_per_second,
        "examples_per_second": findings.examples_per_second,
        "progress": None if snapshot.progress is None else snapshot.progress.share_done,
        "time_left": None if snapshot.progress is None else snapshot.progress.time_left,
        "slowdown": findings.slowdown,
        "transfer": findings.transfer,
        "tasks": [_task(view, snapshot.mfu(view)) for view in snapshot.tasks],
        "diagnoses": [diagnosis_fields(diagnosis) for diagnosis in findings.diagnoses if diagnosis.end is None],
    }


def _task(view: TaskView, mfu: float | None) -> Json:
    frame = view.frame
    return {
        "task": str(view.task),
        "agent": str(view.agent),
        "host": view.host,
        "link": encode(view.link),
        "status": encode(view.status),
        "notes": list(view.notes),
        "probe": encode(frame.probe) if frame else None,
        "techniques": list(view.techniques),
        "summary": encode(view.summary),
        "mfu": mfu,
        "stages": encode(view.stages),
        "frame_time": frame.at if frame else None,
        "training": encode(frame.training) if frame else None,
        "gpus": encode(frame.gpus) if frame else [],
        # Its name in frames, `host`, is that of the host's name here.
        "host_sample": encode(frame.host) if frame else None,
    }
