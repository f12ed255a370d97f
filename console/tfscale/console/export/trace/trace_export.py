"""Export of a run as a trace: steps, all-reduces, activities, states and findings of all tasks on one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.steps.pipeline_stages import is_stage
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.export.trace.aligned_clocks import AlignedClocks
from tfscale.console.export.trace.step_slices import SubjectSteps
from tfscale.console.export.trace.trace_tracks import ACTIVITIES, FINDINGS, MAIN, STATE, TrackGroup
from tfscale.console.export.trace.training_steps import PATIENCE, AllReduces, TrainingSteps, steps_of
from tfscale.console.wire.perfetto_writer import Argument, PerfettoWriter, nanoseconds
from tfscale.console.wire.profile_file import ProfileFile
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.restart import governing
from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.cluster.task import Role, subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.text import exit_phrase

_TRAINING = (Role.CHIEF, Role.WORKER)
_CLOCK_EVERY = 5.0
"""Seconds between two values of a clock in the trace."""
_DRIFT = 1e-4
"""Seconds a second by which a console's clock may drift against a host's."""


class _Training:
    """Tasks that meet in one all-reduce, with their clocks."""

    def __init__(self, workers: int, write: Callable[[str, SubjectSteps], None]) -> None:
        self.clocks = AlignedClocks()
        self.workers = TrainingSteps(self.clocks, workers, is_main=True, write=write)
        self.replicas = TrainingSteps(self.clocks, workers, is_main=False, write=write)


class _Task:
    """A task's tracks, and what waits to be written until its clock is known."""

    def __init__(self, tracks: TrackGroup) -> None:
        self.tracks = tracks
        self.waiting: list[tuple[str, int, str, float, float, dict[str, Argument]]] = []
        """Arguments of `TrackGroup.slice`, on the host's clock."""
        self.stages: list[StepBatch] = []
        """Steps of pipeline stages."""
        self.activities: dict[tuple[str, float], Activity] = {}
        """Activities that last, by kind and begin."""
        self.status: tuple[TaskStatus, float] | None = None
        """Newest state, and since when."""
        self.first, self.newest = np.inf, 0.0
        """Times of the first and the newest frame."""
        self.delay = np.inf
        """Least seconds between a frame's time on its host's clock and its arrival on the console's."""
        self.clock_written = -np.inf


class TraceExport:
    """Listener of an engine that writes what it hears as a trace in Perfetto's format."""

    def __init__(
        self, spec: ClusterSpec, file: IO[bytes], at: float, profiles: Mapping[str, Sequence[ProfileFile]]
    ) -> None:
        """Write to a file the trace of a run that begins `at`, and in it profiles of its tasks, by their names."""
        self._profiles = {name: sorted(files, key=lambda each: each.begin) for name, files in profiles.items()}
        """Profiles that are not written, by task."""
        self.outside: list[Path] = []
        """Profiles that were not taken within what the recording has of their task."""
        self._writer = PerfettoWriter(file, nanoseconds(at))
        self._hosts: dict[str, str] = {}
        self._places = {str(task): place for place, task in enumerate(spec.tasks)}
        self._cluster = TrackGroup(self._writer, f"cluster {spec.name}", 0)
        self._tasks: dict[str, _Task] = {}
        self._closed: list[TrackGroup] = []
        """Groups of tasks on hosts that they have left."""
        self._joined = _Training(sum(task.role in _TRAINING for task in spec.tasks), self._write_steps)
        self._apart: dict[str, _Training] = {}
        self._findings: dict[tuple[str, str, float], Diagnosis] = {}
        """Findings that have not ended, by kind, subject and begin."""
        self._at = at
        self._reduced = 0.0
        """End of the newest written all-reduce."""

    @property
    def left_out(self) -> int:
        """Steps that came too late to be aligned with those of the others, or before others after a clock was set."""
        late = (each.left_out for training in self._trainings for each in (training.workers, training.replicas))
        groups = (*self._closed, *(task.tracks for task in self._tasks.values()))
        return sum(late) + sum(tracks.left_out for tracks in groups)

    def event_folded(self, event: Event) -> None:
        self._at = event.at
        if isinstance(event, AgentDescribed):
            self._place(str(event.task), event.description.host)
        elif isinstance(event, FrameArrived):
            self._take(str(event.task), event.frame, event.at)

    def _place(self, name: str, host: str) -> None:
        """Note the host of a task; one that was placed elsewhere has another group, by another clock."""
        if self._hosts.get(name, host) != host and (before := self._tasks.pop(name, None)) is not None:
            self._close(name, before)
            self._closed.append(before.tracks)
        self._hosts[name] = host

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        for training in self._trainings:
            self._flush(training, snapshot.at, is_over=False)
        for diagnosis in snapshot.changes:
            self._note(diagnosis)
        if snapshot.findings.steps_per_second is not None and [*self._delays()]:
            at = snapshot.at - self._console_ahead()
            self._cluster.count("steps a second", "", at, snapshot.findings.steps_per_second)
        for name, task in self._tasks.items():
            self._write_waiting(name, task)
            while (files := self._profiles.get(name)) and files[0].end < task.newest:
                self._write_profile(name, task, files.pop(0))

    def finish(self) -> None:
        """Write what still waits, and what has not ended, up to the newest moment."""
        for training in self._trainings:
            self._flush(training, self._at, is_over=True)
        self.outside += [each.path for files in self._profiles.values() for each in files]
        for diagnosis in [*self._findings.values()]:
            self._write_finding(diagnosis, self._at, {"open": "at the end of the recording"})
        for name, task in self._tasks.items():
            self._close(name, task)

    def _close(self, name: str, task: _Task) -> None:
        for activity in task.activities.values():
            self._write_activity(task, activity, task.newest)
        if task.status is not None:
            self._end_state(task, task.newest)
        self._write_waiting(name, task, is_over=True)

    @property
    def _trainings(self) -> list[_Training]:
        return [self._joined, *self._apart.values()]

    def _task(self, name: str) -> _Task:
        if name not in self._tasks:
            host = self._hosts.get(name)
            rank = 1 + self._places.get(name, len(self._places))
            self._tasks[name] = _Task(TrackGroup(self._writer, f"{name} on {host}" if host else name, rank))
        return self._tasks[name]

    def _training_of(self, name: str, frame: Frame) -> _Training:
        """Return the training of a task: its own once it is known that no strategy joins it with others."""
        if frame.probe is not None and frame.steps:
            if governing(frame.probe) != DEFAULT.name:
                self._apart.pop(name, None)
            elif name not in self._apart:
                self._apart[name] = _Training(1, self._write_steps)
        return self._apart.get(name, self._joined)

    def _take(self, name: str, frame: Frame, at: float) -> None:
        task = self._task(name)
        before, task.newest, task.first = task.newest, frame.at, min(task.first, frame.at)
        task.delay = min(task.delay + _DRIFT * max(0.0, frame.at - before), at - frame.at)
        self._take_status(task, frame)
        self._take_activities(task, frame, before)
        training = self._training_of(name, frame)
        for batch in frame.steps:
            if len(batch.sequence):
                self._take_steps(training, batch, at, is_coordinator=frame.coordinator is not None)

    def _take_steps(self, training: _Training, batch: StepBatch, at: float, *, is_coordinator: bool) -> None:
        part = batch.subject.partition("/")[2]
        if is_coordinator or subject_owner(batch.subject) != subject_owner(batch.reporter):
            self._write_steps(batch.subject, steps_of(batch, 0.0))
        elif is_stage(part):
            self._task(subject_owner(batch.subject)).stages.append(batch)
        else:
            steps = training.replicas if part else training.workers
            self._write_all_reduces(steps.add(batch, at))

    def _flush(self, training: _Training, at: float, *, is_over: bool) -> None:
        self._write_all_reduces(training.workers.flush(at, is_over=is_over))
        training.replicas.flush(at, is_over=is_over)

    def _write_steps(self, subject: str, steps: SubjectSteps) -> None:
        name = subject_owner(subject)
        task = self._task(name)
        task.tracks.steps(subject, steps)
        clocks = self._clocks_of(name)
        at = float(np.fmax.reduce(steps.end, initial=-np.inf))
        if name in clocks.ahead and at >= task.clock_written + _CLOCK_EVERY:
            task.clock_written = at
            task.tracks.count("clock ahead", "s", at, clocks.ahead[name])
            task.tracks.count("alignment error", "s", at, clocks.error[name])

    def _clocks_of(self, name: str) -> AlignedClocks:
        return self._apart.get(name, self._joined).clocks

    def _write_all_reduces(self, found: list[AllReduces]) -> None:
        for each in found:
            for column in np.flatnonzero((~np.isnan(each.entered)).sum(axis=0) > 1):
                entered, end = each.entered[:, column], float(np.nanmax(each.left[:, column]))
                last = int(np.nanargmax(entered))
                begin = max(float(np.nanmin(entered)), self._reduced)
                if end > begin:
                    arguments: dict[str, Argument] = {
                        "sequence": int(each.sequence[column]),
                        "last": each.subjects[last],
                        "waited for it": float(entered[last] - np.nanmedian(entered)),
                    }
                    self._cluster.slice(MAIN, 0, "all-reduce", begin, end, arguments)
                    self._reduced = end

    def _take_status(self, task: _Task, frame: Frame) -> None:
        new, known = frame.status, task.status
        if known is not None:
            if _same_state(known[0], new):
                return
            self._end_state(task, frame.at)
        task.status = new, frame.at

    def _end_state(self, task: _Task, end: float) -> None:
        assert task.status is not None
        status, begin = task.status
        arguments: dict[str, Argument] = {"generation": status.generation, "attempt": status.attempt}
        if status.reason:
            arguments["reason"] = status.reason
        if status.exit is not None:
            arguments["exit"] = exit_phrase(status.exit)
        task.waiting.append(("state", STATE, str(status.state.value), begin, end, arguments))

    def _take_activities(self, task: _Task, frame: Frame, before: float) -> None:
        """Write the activities that have ended; where frames say no more of one, it ended after the one `before`."""
        lasting, task.activities = task.activities, {}
        for activity in frame.activities:
            key = str(activity.kind.value), activity.begin
            lasting.pop(key, None)
            if activity.end is None:
                task.activities[key] = activity
            else:
                self._write_activity(task, activity, activity.end)
        for activity in lasting.values():
            self._write_activity(task, activity, before)

    def _write_activity(self, task: _Task, activity: Activity, end: float) -> None:
        task.waiting.append((str(activity.kind.value), ACTIVITIES, str(activity.kind.value), activity.begin, end, {}))

    def _write_waiting(self, name: str, task: _Task, *, is_over: bool = False) -> None:
        """Write a task's slices once its clock is aligned; at the end on its host's clock where it never was.

        Stages, whose steps are many, wait no longer than the first steps of all do.
        """
        ahead = self._clocks_of(name).ahead.get(name, 0.0 if is_over else None)
        if ahead is not None or task.newest - task.first > 2 * PATIENCE:
            stages, task.stages = task.stages, []
            for batch in stages:
                self._write_steps(batch.subject, steps_of(batch, ahead or 0.0))
        if ahead is not None and task.waiting:
            waiting, task.waiting = task.waiting, []
            for track, rank, text, begin, end, arguments in waiting:
                task.tracks.slice(track, rank, text, begin - ahead, end - ahead, arguments)

    def _write_profile(self, name: str, task: _Task, profile: ProfileFile) -> None:
        if profile.begin < task.first:
            self.outside.append(profile.path)
            return
        ahead = self._clocks_of(name).ahead.get(name, 0.0)
        for line, ops in profile.lines():
            task.tracks.profile(line, ops, ahead)

    def _note(self, diagnosis: Diagnosis) -> None:
        key = diagnosis.kind, diagnosis.subject, diagnosis.begin
        self._findings.pop(key, None)
        if diagnosis.end is None:
            self._findings[key] = diagnosis
        else:
            self._write_finding(diagnosis, diagnosis.end, {})

    def _write_finding(self, diagnosis: Diagnosis, end: float, more: dict[str, Argument]) -> None:
        owner = subject_owner(diagnosis.subject)
        tracks = self._tasks[owner].tracks if owner in self._tasks else self._cluster
        ahead = self._console_ahead()
        arguments: dict[str, Argument] = {
            "subject": diagnosis.subject,
            "severity": diagnosis.severity,
            "sentence": diagnosis.sentence,
            **more,
        }
        if (advice := first_step(diagnosis)) is not None:
            arguments["to do"] = advice
        tracks.slice("findings", FINDINGS, diagnosis.kind, diagnosis.begin - ahead, end - ahead, arguments)

    def _console_ahead(self) -> float:
        """Return the seconds by which the console's clock is ahead of the axis, by the quickest frames."""
        return min(self._delays(), default=0.0)

    def _delays(self) -> Iterator[float]:
        for name, task in self._tasks.items():
            ahead = self._clocks_of(name).ahead.get(name)
            if ahead is not None:
                yield task.delay + ahead


def _same_state(one: TaskStatus, other: TaskStatus) -> bool:
    return (one.state, one.generation, one.attempt) == (other.state, other.generation, other.attempt)
