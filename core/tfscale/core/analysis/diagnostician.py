"""From frames to findings: the state that the pure rules beside this module need, and one call that asks them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from tfscale.core.analysis.findings import Findings, SubjectSummary
from tfscale.core.analysis.headline import headline
from tfscale.core.analysis.open_diagnoses import Ledger
from tfscale.core.analysis.run.cluster_context import Insight
from tfscale.core.analysis.steps.phases import longest, slowdown, transfer
from tfscale.core.analysis.steps.step_summary import SECONDS, STEPS, known_median, steps_per_second, summaries
from tfscale.core.analysis.steps.step_table import Aligned, StepTable
from tfscale.core.analysis.stragglers.asynchronous import Asynchronous
from tfscale.core.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.core.analysis.stragglers.straggler_rule import Rule, StragglerWatch
from tfscale.core.analysis.tasks.crashes import CrashWatch
from tfscale.core.analysis.tasks.hangs import hangs
from tfscale.core.analysis.tasks.non_finite import not_finite
from tfscale.core.analysis.tasks.not_started import not_started
from tfscale.core.analysis.tasks.observed_task import WARM_UP_STEPS, TaskView
from tfscale.core.analysis.tasks.unanswered import unanswered
from tfscale.core.cluster import ClusterSpec
from tfscale.core.records import Diagnosis, Frame
from tfscale.core.task import subject_order, subject_owner, subject_task

SILENT_SECONDS, SILENT_STEPS = 5.0, 50
"""A subject that is behind the newest by more than both is not waited for: its frames do not arrive."""
WHOLE = 0.75
"""Share of the subjects whose step must be known for it to count; a frame that is lost costs the others nothing."""
STALE = 10.0
"""Seconds without a step from which on the last rates are no longer the present ones."""


class Diagnostician:
    """Folds every agent's frames in order of arrival, and says about once a second what they mean."""

    def __init__(self, spec: ClusterSpec, rule: Rule | None = None) -> None:
        self._tasks = {str(task): TaskView(task) for task in spec.tasks}
        self._groups = {"task": _Group(rule or Rule()), "replica": _Group(rule or Rule())}
        self._asynchronous = Asynchronous(rule or Rule())
        self._insight = Insight(spec)
        self._crashes = CrashWatch()
        self._ledger = Ledger()

    def fold(self, task: str, frame: Frame) -> None:
        """Take in one frame of one task's agent; frames of tasks that the spec does not know are left out."""
        if task not in self._tasks:
            return
        self._tasks[task].fold(frame)
        self._insight.fold(task, frame)
        for batch in frame.steps:
            owner, _, replica = batch.subject.partition("/")
            if owner not in self._tasks:
                continue
            if batch.reporter.partition("/")[0] != owner:
                self._asynchronous.add(batch)
            else:
                self._groups["replica" if replica else "task"].table.add(batch)

    def link(self, task: str, up: bool, at: float) -> None:
        """The connection to a task's agent came (`up`) or went, at `at` on the observer's clock."""
        view = self._tasks.get(task)
        if view is not None and (view.since is None or view.up != up):
            view.up, view.since = up, at

    def diagnose(self, now: float) -> Findings:
        """What holds at `now`, Unix seconds on the observer's clock."""
        views = tuple(self._tasks.values())
        holding: list[Diagnosis] = [
            *self._crashes.diagnose(self._tasks, now),
            *hangs(views),
            *not_started(views, now),
            *unanswered(views),
        ]
        tasks, replicas, apart = self._groups["task"], self._groups["replica"], self._asynchronous
        for group in self._all:
            group.judge(self._tasks)
        named = [*one_name(tasks.diagnoses, replicas.diagnoses, replicas.window.subjects), *apart.diagnoses]
        holding += self._insight.explain(
            named, [(each.window.subjects, each.figures) for each in self._all], self._tasks
        )
        holding += not_finite(views)
        main: _Group | Asynchronous = apart if apart else tasks if tasks.table.subjects() else replicas
        straggles = any(found.kind == "straggler" for found in named)
        holding += self._insight.look(main.window, self._tasks, straggles, now)
        self._insight.count(*main.counted)
        diagnoses = self._ledger.update(holding, now)
        return replace(self._findings(diagnoses, main, views), spent=self._insight.spent)

    @property
    def _all(self) -> tuple[_Group | Asynchronous, ...]:
        return (*self._groups.values(), self._asynchronous)

    def _findings(
        self, diagnoses: tuple[Diagnosis, ...], main: _Group | Asynchronous, views: tuple[TaskView, ...]
    ) -> Findings:
        window = main.window
        rate = main.rate() if _is_moving(views) else None
        subjects = {name: each for group in self._all for name, each in group.summaries().items()}
        examples = next((view.probe.examples_per_step for view in views if view.probe and view.running), None)
        costs = [cost for group in self._all if (cost := group.slowdown()) is not None]
        return Findings(
            diagnoses=diagnoses,
            headline=headline(diagnoses, views, rate),
            step_time=main.step_time(),
            steps_per_second=rate,
            examples_per_second=rate * examples if rate is not None and examples is not None else None,
            slowdown=max(costs, default=None),
            transfer=known_median(transfer(window.reduce)) if window.meets else None,
            subjects=subjects,
        )


def one_name(tasks: list[Diagnosis], replicas: list[Diagnosis], subjects: Sequence[str]) -> list[Diagnosis]:
    """What was found among tasks and among the replicas in them, without telling the same twice.

    A task of which every replica is slow is slow itself; otherwise the replica is named, and not its task.
    """
    named = {found.subject for found in replicas if found.kind == "straggler"}
    whole = {subject_task(name) for name in named} - {subject_task(name) for name in subjects if name not in named}
    kept = [found for found in replicas if found.subject in named and subject_task(found.subject) not in whole]
    told = {subject_task(found.subject) for found in kept}
    return [found for found in tasks if found.kind != "straggler" or subject_task(found.subject) not in told] + kept


class _Group:
    """Subjects that do equal work and meet in the same collective: the tasks, or the replicas within tasks."""

    def __init__(self, rule: Rule) -> None:
        self.table = StepTable()
        self.watch = StragglerWatch(rule)
        self.window = self.table.aligned(())
        """The newest steps of those who line up: what the cluster's figures are over."""
        self.diagnoses: list[Diagnosis] = []
        self.ends = np.empty(0)
        """When the newest steps of the subject that is furthest ended."""
        self._attempts: dict[str, tuple[int, int]] = {}

    @property
    def figures(self) -> Mapping[str, StragglerFigures]:
        """The figures of each straggler, by subject."""
        return self.watch.names.figures

    @property
    def counted(self) -> tuple[StepTable, tuple[str, ...], str]:
        """Whose steps stand for the time of the run."""
        return self.table, self.window.subjects, ""

    def step_time(self) -> float | None:
        """Median seconds; from step to step of the leader where the phases are not known."""
        if len(self.window):
            return known_median(longest(self.window.lag) + transfer(self.window.reduce))
        return known_median(np.diff(self.ends)) if len(self.ends) > 1 else None

    def slowdown(self) -> float | None:
        """What the named cost, None while nothing lines up."""
        window = self.window
        culprits = [window.subjects.index(name) for name in self.watch.names if name in window.subjects]
        return slowdown(window.lag, window.reduce, culprits) if len(window) else None

    def rate(self) -> float | None:
        """Steps a second of the subject that is furthest, None while nobody runs."""
        return steps_per_second(self.ends)

    def summaries(self) -> dict[str, SubjectSummary]:
        return summaries(self.table, self.window, max(STEPS, len(self.ends)))

    def judge(self, tasks: dict[str, TaskView]) -> None:
        """Line up what was reported and ask who straggles, among subjects whose task runs."""
        running = [
            subject for subject in self.table.subjects() if _is_judged(subject, self.table.attempt(subject), tasks)
        ]
        self._forget_restarted(running, tasks)
        heard = tuple(sorted(self._heard(running), key=subject_order))
        first = max(WARM_UP_STEPS, self.watch.follow(heard) + 1)
        self.window = self.table.window(heard, WARM_UP_STEPS, SECONDS, STEPS, WHOLE)
        self.diagnoses = self.watch.diagnose(self.table.aligned(heard, first, WHOLE), self._steps_since)

    def _steps_since(self, at: float) -> Aligned:
        """Return the steps of the window's subjects that ended after `at`, as far as they are kept; an even sample of
        very many."""
        window = self.window
        seconds = float(window.end[-1]) - at if len(window) else 0.0
        return self.table.window(window.subjects, WARM_UP_STEPS, seconds, 1, WHOLE).since(at)

    def _heard(self, running: list[str]) -> list[str]:
        """Those whose frames still arrive: the others are not waited for."""
        newest = {subject: self.table.newest(subject) or 0 for subject in running}
        leader = max(newest, key=lambda subject: newest[subject], default=None)
        self.ends = self.table.recent(leader, SECONDS, STEPS) if leader else np.empty(0)
        if leader is None:
            return []
        silent = newest[leader] - len(self.table.recent(leader, SILENT_SECONDS, SILENT_STEPS))
        return [subject for subject in running if newest[subject] >= silent]

    def _forget_restarted(self, running: list[str], tasks: dict[str, TaskView]) -> None:
        current = {subject: tasks[subject_owner(subject)].attempt for subject in running}
        changed = {name for name, attempt in self._attempts.items() if current.get(name) != attempt}
        if changed:
            self.watch.restart(changed)
        self._attempts = current


def _is_judged(subject: str, attempt: tuple[int, int], tasks: dict[str, TaskView]) -> bool:
    """Only running workers do equal work (an evaluator has steps of its own), and only steps of this attempt count."""
    view = tasks.get(subject_owner(subject))
    return view is not None and view.meets and view.running and view.attempt == attempt


def _is_moving(views: tuple[TaskView, ...]) -> bool:
    """Whether somebody's newest step is recent, on its own host's clock."""
    return any(
        view.running
        and view.at is not None
        and view.progressed is not None
        and view.at - view.progressed < max(STALE, 2 * view.longest_gap)
        for view in views
    )
