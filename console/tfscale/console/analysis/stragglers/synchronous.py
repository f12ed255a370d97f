"""Synchronous training: tasks, or their replicas, with equal work that meet in the same collective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.observed.observed_task import WARM_UP_STEPS, ObservedTask
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.newest_steps import ALL, NewestSteps, Paced
from tfscale.console.analysis.steps.phases import longest_lag, transfer
from tfscale.console.analysis.steps.step_summary import SECONDS, STEPS, known_median, steps_per_second, summaries
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.console.analysis.stragglers.pauses import PauseWatch
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Rule, ShortHistory
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch
from tfscale.core.cluster.task import subject_order, subject_owner
from tfscale.core.records.diagnosis import Diagnosis

SILENT_SECONDS, SILENT_STEPS = 5.0, 50
"""Distance to the newest step beyond which a subject without frames is not waited for. Frames come once a second;
with less the judgement would go on without an agent that is held up, with more it would wait for one that is gone."""
MOST_SECONDS, MOST_STEPS = 20.0, 40
"""Bounds of the steps over which stragglers are measured, the longer of both: their numbers are present ones, from
four windows, in which noise is half as large."""
COMPLETE = 0.75
"""Share of the subjects that must have reported a step for it to count: a lost frame costs the others nothing."""


class SynchronousSubjects:
    """The steps of these subjects, and the stragglers among them."""

    def __init__(self, rule: Rule) -> None:
        self.table = StepTable()
        self.watch = StragglerWatch(rule)
        self.pauses = PauseWatch()
        self.window = self.table.aligned(())
        """The newest aligned steps: the cluster's figures are measured over them."""
        self.diagnoses: list[Diagnosis] = []
        self.ends = np.empty(0)
        """(k,) ends of the newest steps of the subject that is furthest, Unix seconds."""
        self._leader: str | None = None
        """That subject; None while nobody's steps arrive."""
        self._reporting: tuple[list[str], tuple[str, ...]] = ([], ())
        """Subjects whose frames arrived at the last judgement: in the order of their first steps, in the cluster's."""
        self._attempts: dict[str, tuple[int, int, int]] = {}
        """(generation, attempt, part) of each subject when it was last judged."""

    def follow_clock(self, task: str, seconds: float) -> None:
        """Move the steps of a task after its host's clock was set, and forget the history, which has both times."""
        for subject in filter(lambda subject: subject_owner(subject) == task, self.table.subjects()):
            self.table.move(subject, seconds)
        self.watch.restart(set(self.watch.named))
        self.pauses.restart()

    @property
    def figures(self) -> Mapping[str, StragglerFigures]:
        """The figures of each straggler, by subject."""
        return self.watch.named.figures

    @property
    def short_history(self) -> ShortHistory | None:
        """History while it is too short to name anybody; None once it is long enough, or where nobody has a peer."""
        return self.watch.short_history if len(self.window.subjects) > 1 else None

    @property
    def counted(self) -> tuple[StepTable, tuple[str, ...], str]:
        """The steps that stand for the time of the run: (table, subjects, name of their numbering)."""
        return self.table, self.window.subjects, ""

    def step_time(self) -> float | None:
        """Return median seconds of a step; of the furthest subject from step to step where phases are unknown."""
        if len(self.window):
            return known_median(longest_lag(self.window.lag) + transfer(self.window.reduce))
        return known_median(np.diff(self.ends)) if len(self.ends) > 1 else None

    def slowdown(self) -> float | None:
        """Return the cost of the open stragglers (see `lost_time.slowdown`), None while no steps are aligned."""
        return self.watch.named.slowdown if len(self.window) else None

    def rate(self, since: float = -math.inf) -> float | None:
        """Return the steps a second, after `since`, of the subject that is ahead; None below two steps."""
        return steps_per_second(self.ends[self.ends >= since])

    def newest_steps(self) -> NewestSteps | None:
        """Return the newest steps of the subject that is ahead; None before the first."""
        table, name = self.table, self._leader
        if name is None:
            name = max(table.subjects(), key=lambda subject: table.newest(subject) or 0, default=None)
        if name is None or (newest := table.newest(name)) is None:
            return None
        paces = {} if self._leader is None else {ALL: Paced(table.attempt(name), newest, self.ends)}
        known = table.attempt(name), table.part(name), table.newest_end(name), table.global_step(name)
        return NewestSteps(*known, paces)

    def summaries(self) -> dict[str, SubjectSummary]:
        return summaries(self.table, self.window, max(STEPS, len(self.ends)))

    def judge(self, tasks: Mapping[str, ObservedTask]) -> None:
        """Align the reported steps of subjects with a running task, and find the stragglers."""
        running = [
            subject for subject in self.table.subjects() if _is_judged(subject, self.table.attempt(subject), tasks)
        ]
        self._forget_restarted(running, tasks)
        reporting = self._in_order(self._still_reporting(running))
        first = max(WARM_UP_STEPS, self.watch.follow(reporting) + 1)
        self.window = self.table.window(reporting, WARM_UP_STEPS, SECONDS, STEPS, COMPLETE)
        fresh = self.table.aligned(reporting, first, COMPLETE)
        self.watch.input_python = _input_python(reporting, tasks)
        slow = self.watch.diagnose(fresh, self._steps_since)
        self.pauses.count(fresh)
        self.diagnoses = [*slow, *self.pauses.diagnose(self.figures)]

    def _steps_since(self, at: float) -> AlignedSteps:
        """Return the window's subjects' steps that ended after `at`, of the newest seconds; of many an even sample.

        Standstills are left out: they are not part of the pace.
        """
        window = self.window
        seconds = float(window.end[-1]) - at if len(window) else 0.0
        steps = MOST_STEPS if seconds > MOST_SECONDS else 1
        newest = self.table.window(window.subjects, WARM_UP_STEPS, min(seconds, MOST_SECONDS), steps, COMPLETE)
        return newest.since(at).without_standstills()

    def _still_reporting(self, running: list[str]) -> list[str]:
        """Return the subjects whose frames still arrive."""
        newest = {subject: self.table.newest(subject) or 0 for subject in running}
        leader = max(newest, key=lambda subject: newest[subject], default=None)
        self._leader = leader
        self.ends = self.table.recent(leader, SECONDS, STEPS) if leader else np.empty(0)
        if leader is None:
            return []
        silent = newest[leader] - len(self.table.recent(leader, SILENT_SECONDS, SILENT_STEPS))
        return [subject for subject in running if newest[subject] >= silent]

    def _in_order(self, subjects: list[str]) -> tuple[str, ...]:
        """Return the subjects in the cluster's order; while they do not change, the same tuple."""
        if subjects != self._reporting[0]:
            self._reporting = subjects, tuple(sorted(subjects, key=subject_order))
        return self._reporting[1]

    def _forget_restarted(self, running: list[str], tasks: Mapping[str, ObservedTask]) -> None:
        current = {subject: (*tasks[subject_owner(subject)].attempt, self.table.part(subject)) for subject in running}
        changed = {name for name, attempt in self._attempts.items() if current.get(name) != attempt}
        if changed:
            self.watch.restart(changed)
            self.pauses.restart()
        self._attempts = current


def _input_python(subjects: Sequence[str], tasks: Mapping[str, ObservedTask]) -> dict[str, float]:
    """Return the seconds a step of the Python in each subject's input, where its probe knows them."""
    probes = {subject: tasks[subject_owner(subject)].probe for subject in subjects}
    return {
        subject: probe.input_python for subject, probe in probes.items() if probe and probe.input_python is not None
    }


def _is_judged(subject: str, attempt: tuple[int, int], tasks: Mapping[str, ObservedTask]) -> bool:
    """Decide whether the subject's steps are compared: those of a running worker, in its present attempt.

    An evaluator has steps of its own.
    """
    task = tasks.get(subject_owner(subject))
    return task is not None and task.meets and task.running and task.attempt == attempt
