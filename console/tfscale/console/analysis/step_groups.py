"""Groups of subjects with equal work: workers, their replicas, asynchronous workers; and pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.detector import ClusterView, Detector, StepView
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.side_by_side import trainings_apart
from tfscale.console.analysis.steps.pipeline_stages import PipelineStages, is_stage
from tfscale.console.analysis.stragglers.asynchronous import AsynchronousWorkers
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.synchronous import SynchronousSubjects
from tfscale.core.cluster.task import subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame

_STEPS = 400
"""Newest steps over which trainings must keep step: over 100, some of a hundred pairs of independent trainings would
seem to; over 800, it is found out twice as late (test_side_by_side.py)."""
_BOUND = 8.0
"""Multiple of its usual change from step to step within which the distance of two trainings then stays: of independent
ones it is 33 (at least 12 in 999 of 1000 random walks of 400 steps), of those that meet in each step 3 to 6."""


class Training:
    """Tasks that meet in one all-reduce, and the replicas in them: each is compared with its peers."""

    def __init__(self, rule: Rule) -> None:
        self.workers = SynchronousSubjects(rule)
        self.replicas = SynchronousSubjects(rule)

    @property
    def groups(self) -> tuple[SynchronousSubjects, SynchronousSubjects]:
        return self.workers, self.replicas

    @property
    def main(self) -> SynchronousSubjects:
        """Group whose steps are the training's."""
        return self.workers if self.workers.table.subjects() else self.replicas

    @property
    def diagnoses(self) -> list[Diagnosis]:
        workers, replicas = self.workers.diagnoses, self.replicas.diagnoses
        return without_duplicates(workers, replicas, self.replicas.window.subjects)


class StepGroups(Detector):
    """Steps of all subjects by group, and the stragglers, imbalances and pauses among them."""

    def __init__(self, tasks: Mapping[str, ObservedTask], rule: Rule) -> None:
        self._tasks = tasks
        self._rule = rule
        self._joined = Training(rule)
        self._apart: dict[str, Training] = {}
        """Trainings of the tasks that no strategy joins with others, by task."""
        self._asynchronous = AsynchronousWorkers(rule)
        self._stages = PipelineStages()
        self._stood = False
        """True from a standstill on up to the first step after it."""

    def observe(self, task: str, frame: Frame) -> None:
        """Put the steps of a frame into the groups of their subjects."""
        if jump := self._tasks[task].clock_set:
            for group in self._groups:
                group.follow_clock(task, jump)
        training = self._training_of(task)
        training.workers.pauses.note_activities(task, frame.activities)
        for batch in frame.steps:
            owner, _, part = batch.subject.partition("/")
            if owner not in self._tasks:
                continue
            # A coordinator reports its workers' steps, also those of the worker that runs beside it in its task.
            if is_stage(part):
                self._stages.add(batch)
            elif frame.coordinator is not None or batch.reporter.partition("/")[0] != owner:
                self._asynchronous.add(batch)
            else:
                (training.replicas if part else training.workers).table.add(batch)

    def _training_of(self, task: str) -> Training:
        """Return the training of a task: one with the others, unless it is known that no strategy joins them."""
        match self._tasks[task].is_joined:
            case False if task not in self._apart:
                self._apart[task] = Training(self._rule)
            case True:
                self._apart.pop(task, None)
        return self._apart.get(task, self._joined)

    def judge(self, local_steps: int) -> StepView:
        """Align the newest steps of each group, find its stragglers, and return the steps that are the cluster's."""
        self._judge_groups()
        main = self.main
        return StepView(
            window=main.window,
            counted=main.counted,
            newest=main.newest_steps(),
            is_asynchronous=bool(self._asynchronous),
            local_steps=local_steps,
            compared=[(group.window.subjects, group.figures) for group in self._groups],
            late=main.watch.named.late,
            keeps_step=self._keeps_step(),
        )

    def _judge_groups(self) -> None:
        for group in (*self._joined.groups, self._asynchronous):
            group.judge(self._tasks)
        makes_steps = False
        for training in self._trainings[1:]:
            for group in training.groups:
                # Of a thousand trainings side by side, those with nobody to compare would take a second.
                if not makes_steps or len(group.table.subjects()) > 1:
                    group.judge(self._tasks)
            makes_steps |= len(training.main.ends) > 0

    def _keeps_step(self) -> bool:
        """Decide whether all trainings side by side make their newest steps at the same times."""
        names = (task.name for task in trainings_apart(self._tasks.values()))
        tables = [self._apart[name].main.table for name in names if name in self._apart]
        if len(tables) < 2:
            return False
        subjects = [table.subjects()[0] for table in tables]
        last = min(table.newest(subject) or 0 for table, subject in zip(tables, subjects, strict=True))
        ends = [
            table.reported([subject], last + 1 - _STEPS, last)[0]
            for table, subject in zip(tables, subjects, strict=True)
        ]
        return keep_step(np.concatenate(ends))

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the stragglers, imbalances and pauses of all groups, by the last judgement.

        A straggler ends with the last step before a standstill, and begins anew with the first step after it.
        """
        self._note_standstill(view)
        found = [each for training in self._trainings for each in training.diagnoses] + self._asynchronous.diagnoses
        resumed = self.main.watch.named.resumed
        return [each for each in found if each.kind != "straggler" or not each.begin < resumed <= view.now]

    def _note_standstill(self, view: ClusterView) -> None:
        if not view.has_pace:
            self._stood = True
        elif self._stood and view.condition.resumed is not None:
            self._stood = False
            for group in self._groups:
                group.watch.named.resumed = view.condition.resumed

    @property
    def main(self) -> SynchronousSubjects | AsynchronousWorkers:
        """Group whose steps are the cluster's: of trainings side by side, the first that makes steps."""
        if self._asynchronous:
            return self._asynchronous
        groups = [training.main for training in self._trainings]
        return max(groups, key=lambda group: (len(group.ends) > 0, len(group.table.subjects()) > 0))

    @property
    def recovered(self) -> dict[str, float]:
        """Time, Unix seconds, since which a just ended straggler is as fast as its peers, by subject."""
        return {name: since for group in self._groups for name, since in group.watch.named.recovered.items()}

    @property
    def slowdown(self) -> float | None:
        """Factor by which the stragglers of the group that loses most lengthen a step; None without steps."""
        return max((cost for group in self._groups if (cost := group.slowdown()) is not None), default=None)

    def summaries(self) -> dict[str, SubjectSummary]:
        """Return medians of the newest steps of each subject of all groups."""
        return {name: summary for group in self._groups for name, summary in group.summaries().items()}

    def stage_summaries(self) -> dict[str, SubjectSummary]:
        """Return medians of the newest steps of each pipeline stage."""
        return self._stages.summaries()

    @property
    def _trainings(self) -> list[Training]:
        return [self._joined, *(self._apart[name] for name in self._tasks if name in self._apart)]

    @property
    def _groups(self) -> list[SynchronousSubjects | AsynchronousWorkers]:
        return [*(group for training in self._trainings for group in training.groups), self._asynchronous]


def keep_step(ends: NDArray[np.float64]) -> bool:
    """Decide whether n trainings make their steps at the same times, by the (n, k) ends of the same steps of each.

    The distance between two that know nothing of each other is a random walk; between two that meet in each step it
    always comes back. A constant distance, as between two clocks, is none.
    """
    if ends.shape[1] < _STEPS or np.isnan(ends).any():
        return False
    distance = ends[1:] - ends[0]
    high, low = np.percentile(distance, (95, 5), axis=1)
    return bool((high - low <= _BOUND * np.median(np.abs(np.diff(distance)), axis=1)).all())


def without_duplicates(workers: list[Diagnosis], replicas: list[Diagnosis], subjects: Sequence[str]) -> list[Diagnosis]:
    """Return the diagnoses of tasks and of the replicas in them, each slowness once.

    A task with only slow replicas (of all `subjects`) is slow itself; otherwise the replica alone is named.
    """
    slow = {diagnosis.subject for diagnosis in replicas if diagnosis.kind == "straggler"}
    entirely = {subject_task(name) for name in slow} - {subject_task(name) for name in subjects if name not in slow}
    partly = [
        replica for replica in replicas if replica.subject in slow and subject_task(replica.subject) not in entirely
    ]
    named = {subject_task(replica.subject) for replica in partly}
    return [
        worker for worker in workers if worker.kind != "straggler" or subject_task(worker.subject) not in named
    ] + partly
