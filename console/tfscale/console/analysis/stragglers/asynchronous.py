"""Asynchronous training: workers of ParameterServerStrategy, each at its own pace, whose steps the chief reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS, ObservedTask
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.newest_steps import NewestSteps, Paced
from tfscale.console.analysis.steps.phases import others_median
from tfscale.console.analysis.steps.staleness import Staleness, Updates, staleness
from tfscale.console.analysis.steps.step_summary import SECONDS, STEPS, known_median, steps_per_second, summaries
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.console.analysis.stragglers.async_pace import Pace, PaceWatch
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Rule, ShortHistory
from tfscale.core.cluster.task import subject_order, subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.step_batch import StepBatch

SILENT_SECONDS, SILENT_STEPS = 5.0, 5
"""Distance to the newest step, in own steps, beyond which a worker is not waited for. Frames come once a second, so
beyond it several are missing; a worker whose steps take seconds is given five of them."""
STALE_SECONDS, STALE_STEPS = 10.0, 20
"""Newest steps over which staleness is told: the longer of both, in steps of the slowest. Fewer updates make a mean
that jumps, more include a time that is over."""
ROWS = 60
"""Newest steps of each worker in the window: three times the 20 that a window has at least."""
CELLS = 4096
"""Steps that are kept of each worker: 40 s at 100 steps a second."""


class AsynchronousWorkers:
    """The steps of these workers, and the stragglers among them."""

    def __init__(self, rule: Rule) -> None:
        self.watch = PaceWatch(rule)
        self.window = StepTable().aligned(())
        """The newest steps of each worker side by side; the steps of one row do not have the same number."""
        self.diagnoses: list[Diagnosis] = []
        self._counted: str | None = None
        """The worker whose steps stand for the time of the run."""
        self._tables: dict[str, StepTable] = {}
        self._reporters: dict[str, str] = {}
        self._attempts: dict[str, tuple[int, int]] = {}
        """(generation, attempt) of each worker when it was last judged."""
        self._running: set[str] = set()
        self._ends: dict[str, Floats] = {}
        """(k,) ends of the newest steps of each worker that is heard, Unix seconds."""

    def __bool__(self) -> bool:
        return bool(self._tables)

    def add(self, batch: StepBatch) -> None:
        """Take in a batch in which one task reports another's steps."""
        if len(batch.sequence):
            self._tables.setdefault(batch.subject, StepTable(cells=CELLS)).add(batch)
            self._reporters[batch.subject] = batch.reporter

    def follow_clock(self, task: str, seconds: float) -> None:
        """Move the steps that a task has reported after its host's clock was set, and forget the pace's history."""
        reported = {subject for subject, reporter in self._reporters.items() if reporter.partition("/")[0] == task}
        for subject in reported & self._tables.keys():
            self._tables[subject].move(subject, seconds)
        self.watch.restart(reported)

    @property
    def figures(self) -> Mapping[str, StragglerFigures]:
        """The figures of each straggler, by subject."""
        return self.watch.named.figures

    @property
    def short_history(self) -> ShortHistory | None:
        """History while it is too short to name anybody; None once it is long enough, or where nobody has a peer."""
        return self.watch.short_history if len(self._ends) > 1 else None

    @property
    def counted(self) -> tuple[StepTable, tuple[str, ...], str]:
        """Steps of one worker, which stand for the time of the run: (table, subjects, name of their numbering)."""
        one = self._counted
        return (StepTable(), (), "") if one is None else (self._tables[one], (one,), one)

    def judge(self, tasks: Mapping[str, ObservedTask]) -> None:
        """Compare the paces of the running workers, and find the stragglers among them."""
        running = self._forget_restarted([name for name in self._tables if self._is_judged(name, tasks)], tasks)
        recent = {subject: self._tables[subject].recent(subject, SECONDS, STEPS) for subject in running}
        reporting = tuple(sorted(_still_reporting(recent), key=subject_order))
        self._ends = {subject: recent[subject] for subject in reporting}
        if self._counted not in reporting:
            self._counted = reporting[0] if reporting else None
        since = self.watch.follow(reporting)
        paces = self._paces_since(reporting, since)
        self.window = self._side_by_side(reporting)
        self.diagnoses = self.watch.diagnose(
            reporting, paces, lambda at: self._paces_since(reporting, at), self._is_cut
        )

    def _is_cut(self, subject: str) -> bool:
        """Decide whether the worker made steps before those that are kept."""
        return (self._tables[subject].oldest() or 0) > WARM_UP_STEPS

    def _paces_since(self, subjects: tuple[str, ...], at: float) -> list[Pace]:
        return [Pace.of(*self._tables[subject].since(subject, at, WARM_UP_STEPS)) for subject in subjects]

    def step_time(self) -> float | None:
        """Return the median of the workers' seconds from step to step."""
        return known_median(np.array([_usual_step(ends) for ends in self._ends.values()]))

    def rate(self, since: float = -math.inf) -> float | None:
        """Return the steps a second of all workers after `since`; None while no worker has made two steps."""
        recent = [ends[ends >= since] for ends in self._ends.values()]
        rates = [rate for ends in recent if (rate := steps_per_second(ends)) is not None]
        return sum(rates) if rates else None

    def newest_steps(self) -> NewestSteps | None:
        """Return the newest steps, each worker's by its name, numbered in the chief's attempt; None before the first.

        Steps at their own pace have no global step.
        """
        ends = {name: table.newest_end(name) for name, table in self._tables.items()}
        if not ends:
            return None
        lead = max(ends, key=lambda name: (self._tables[name].attempt(name), np.nan_to_num(ends[name])))
        attempt = self._tables[lead].attempt(lead)
        paces = {
            name: Paced(self._attempts[name], newest, recent)
            for name, recent in self._ends.items()
            if (newest := self._tables[name].newest(name)) is not None and self._tables[name].attempt(name) == attempt
        }
        return NewestSteps(attempt, self._tables[lead].part(lead), ends[lead], None, paces)

    def slowdown(self) -> float | None:
        """Return the cost of the open stragglers (see `async_pace.shortfall`), None while no worker is heard."""
        return self.watch.named.slowdown if len(self.window) else None

    def summaries(self) -> dict[str, SubjectSummary]:
        """Return a summary of each worker's steps; its ratio compares the worker's own time for a step."""
        result: dict[str, SubjectSummary] = {}
        for subject, table in self._tables.items():
            steps = max(STEPS, len(self._ends.get(subject, ())))
            result |= summaries(table, self.window.last(0), steps)
        for name, stale in self._staleness().items():
            result[name] = replace(result[name], staleness=stale)
        own_times = {name: own for name in self._ends if (own := _own_time(result[name])) is not None}
        if len(own_times) < 2:
            return result
        row = np.array([*own_times.values()])[None]
        ratios = (row / others_median(row))[0].tolist()
        compared = {name: replace(result[name], ratio=ratio) for name, ratio in zip(own_times, ratios, strict=True)}
        return result | compared

    def _staleness(self) -> dict[str, Staleness | None]:
        """Return the staleness of the newest updates of each worker that is heard."""
        if len(self._ends) < 2:
            return {}
        newest = min(float(np.fmax.reduce(ends)) for ends in self._ends.values())
        at = newest - max(STALE_SECONDS, STALE_STEPS * max(map(_usual_step, self._ends.values())))
        tables = [(name, self._tables[name]) for name in self._ends]
        updates = [Updates.of(*table.since(name, at, WARM_UP_STEPS)) for name, table in tables]
        return dict(zip(self._ends, staleness(updates), strict=True))

    def _is_judged(self, subject: str, tasks: Mapping[str, ObservedTask]) -> bool:
        task, reporter = tasks.get(subject_owner(subject)), tasks.get(self._reporters[subject])
        attempt = self._tables[subject].attempt(subject)
        return bool(task and task.running and reporter and reporter.running and reporter.attempt == attempt)

    def _forget_restarted(self, running: Sequence[str], tasks: Mapping[str, ObservedTask]) -> list[str]:
        """Drop the history of restarted workers; return the others of `running`."""
        current = {subject: tasks[subject_owner(subject)].attempt for subject in running}
        anew = {name for name, attempt in current.items() if self._attempts.get(name, attempt) != attempt}
        if left := (self._running - set(running)) | anew:
            self.watch.restart(left)
        for name in anew:
            del self._tables[name]
        self._attempts |= current
        self._running = set(running) - anew
        return [name for name in running if name not in anew]

    def _side_by_side(self, subjects: tuple[str, ...]) -> AlignedSteps:
        ends = [self._tables[subject].recent(subject, 0.0, ROWS)[-ROWS:] for subject in subjects]
        rows = min(map(len, ends), default=0)
        if not rows:
            return StepTable().aligned(())
        phases = np.concatenate([self._tables[subject].newest_of_each([subject], rows) for subject in subjects])
        # Workers at their own pace have no all-reduce: 0 s, but unknown where the step is unknown.
        phases[:, -1] = np.where(np.isnan(phases[:, :-1]).any(axis=1), np.nan, 0.0)
        earliest = np.fmin.reduce([end[-rows:] for end in ends])
        known_rows = np.flatnonzero(np.isfinite(earliest))
        newest = phases.transpose(1, 2, 0)[:, known_rows]
        return AlignedSteps(subjects, np.arange(len(known_rows)), earliest[known_rows], newest, meets=False)


def _still_reporting(recent: Mapping[str, Floats]) -> list[str]:
    """Return the workers whose steps still arrive, by (k,) ends of the newest steps of each worker."""
    newest = {subject: float(np.fmax.reduce(ends)) for subject, ends in recent.items() if np.isfinite(ends).sum() > 1}
    leader = max(newest.values(), default=0.0)
    return [subject for subject, at in newest.items() if leader - at <= _patience(recent[subject])]


def _patience(ends: Floats) -> float:
    return max(SILENT_SECONDS, SILENT_STEPS * _usual_step(ends))


def _usual_step(ends: Floats) -> float:
    """Return median seconds from step to step, of (k,) ends, two or more of which are known."""
    return float(np.median(np.diff(ends[np.isfinite(ends)])))


def _own_time(summary: SubjectSummary) -> float | None:
    parts = [part for part in (summary.update, summary.input, summary.compute) if part is not None]
    return sum(parts) if len(parts) == 3 and sum(parts) > 0 else None
