"""The diagnosis: folds frames into the state that the rules need, and applies all rules about once a second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tfscale.console.analysis.baselines.baseline import BaselineStore
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition, ConditionWatch
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.headline import headline
from tfscale.console.analysis.learning.empty_batches import empty_batches
from tfscale.console.analysis.learning.non_finite import not_finite
from tfscale.console.analysis.network.silence import SilenceWatch
from tfscale.console.analysis.network.slow_links import SlowLinks
from tfscale.console.analysis.open_diagnoses import OpenDiagnoses
from tfscale.console.analysis.process.process_facts import ProcessFacts
from tfscale.console.analysis.restarts.restart_watch import Circumstances, RestartWatch
from tfscale.console.analysis.run.cluster_context import ClusterContext
from tfscale.console.analysis.run.live_cost import gpus_at_work, with_live_cost
from tfscale.console.analysis.steps.phases import transfer
from tfscale.console.analysis.steps.pipeline_stages import PipelineStages, is_stage
from tfscale.console.analysis.steps.step_summary import known_median
from tfscale.console.analysis.stragglers.asynchronous import AsynchronousWorkers
from tfscale.console.analysis.stragglers.straggler_rule import Rule, Suspect
from tfscale.console.analysis.stragglers.synchronous import SynchronousSubjects
from tfscale.console.analysis.tasks.crashes import CrashWatch
from tfscale.console.analysis.tasks.hangs import EVENT, hangs
from tfscale.console.analysis.tasks.no_first_step import no_first_step
from tfscale.console.analysis.tasks.not_measured import not_measured
from tfscale.console.analysis.tasks.not_started import not_started
from tfscale.console.analysis.tasks.not_trained import not_trained
from tfscale.console.analysis.tasks.observed_task import ObservedTask
from tfscale.console.analysis.tasks.stuck_functions import stuck_functions
from tfscale.console.analysis.tasks.unused_gpus import unused_gpus
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import is_named, subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.probe_status import ProbeStatus


class Diagnostician:
    """Fold of every agent's frames, in order of arrival; about once a second it returns what they mean."""

    def __init__(self, spec: ClusterSpec, rule: Rule | None = None, baselines: BaselineStore | None = None) -> None:
        self._tasks = {str(task): ObservedTask(task) for task in spec.tasks}
        self._workers = SynchronousSubjects(rule or Rule())
        self._replicas = SynchronousSubjects(rule or Rule())
        self._asynchronous = AsynchronousWorkers(rule or Rule())
        self._stages = PipelineStages()
        self._context = ClusterContext(spec, baselines)
        self._gpu_price = spec.gpu_price
        self._processes = ProcessFacts()
        self._links = SlowLinks()
        self._silence = SilenceWatch(spec)
        self._condition = ConditionWatch()
        self._restarts = RestartWatch(tuple(self._tasks.values()))
        self._crashes = CrashWatch({(each.host, each.port): str(task) for task, each in spec.tasks.items()})
        self._open = OpenDiagnoses()

    def fold(self, task: str, frame: Frame) -> None:
        """Take in one frame of one task's agent; frames of tasks that the spec does not know are left out."""
        if task not in self._tasks:
            return
        self._tasks[task].fold(frame)
        self._context.fold(task, frame)
        self._processes.fold(task, frame)
        self._links.fold(task, frame)
        self._silence.fold(task, frame)
        self._workers.pauses.note(task, frame.activities)
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
                (self._replicas if part else self._workers).table.add(batch)

    def describe(self, task: str, description: Description) -> None:
        """Note what the agent of a task says about itself."""
        self._context.describe(task, description)

    def note_link(self, task: str, up: bool, at: float, *, has_left: bool = False) -> None:
        """Note that the connection to a task's agent came (`up`) or went, at `at` on the observer's clock.

        Of an agent that `has_left` it is known that it left its task to the next one.
        """
        if (observed := self._tasks.get(task)) is not None:
            observed.note_link(up, at)
            observed.has_left = has_left

    def diagnose(self, now: float) -> Findings:
        """Return what holds at `now`, Unix seconds on the observer's clock."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.note_heard(now)
        for group in self._groups:
            group.judge(self._tasks)
        step_time = self._main.step_time()
        condition = self._condition.judge(tasks, step_time, now)
        if condition.stillness is not None and not (condition.stillness.is_habit or condition.stillness.is_expected):
            for task in tasks:
                task.is_held_up = True
        current: list[Diagnosis] = [
            *self._silence.diagnose(self._tasks, now),
            *self._silence.outages.explain(self._processes.explain(self._crashes.diagnose(self._tasks, now))),
            *self._processes.diagnose(self._tasks),
            *(stuck_functions(tasks) or hangs(tasks, condition)),
            *not_started(tasks, now),
            *no_first_step(tasks, now),
            *not_trained(tasks),
            *not_measured(tasks),
            *unused_gpus(tasks),
            *not_finite(tasks),
            *empty_batches(tasks),
        ]
        current += self._pace(condition, now)
        self._context.charge_standstill(current, condition)
        self._context.count_steps(self._tasks, *self._main.counted)
        recovered = {name: since for group in self._groups for name, since in group.watch.named.recovered.items()}
        diagnoses = (*self._open.update(current, now, recovered), *self._restarted(tasks, now))
        return self._findings(diagnoses, tasks, condition, step_time, now)

    def _restarted(self, tasks: tuple[ObservedTask, ...], now: float) -> list[Diagnosis]:
        """Return the restart whose cost and gain have been measured since the last evaluation."""
        stragglers = [each for each in self._stragglers() if each.kind == "straggler"]
        trained = self._context.trained
        if self._asynchronous and trained is not None:
            # Facts are of the one worker whose steps stand for all, and that may be another one since.
            trained = replace(trained, facts=replace(trained.facts, hosts=()))
        known = Circumstances(now, stragglers, trained, _local_steps(tasks))
        return self._restarts.fold(self._main.newest_steps(), known)

    def _pace(self, condition: ClusterCondition, now: float) -> list[Diagnosis]:
        """Return how the cluster trains; nothing where it does not, once that is an event and no passing pause."""
        gpus = gpus_at_work(self._tasks.values())
        slow = with_live_cost(self._stragglers(), gpus, self._gpu_price)
        compared = [(group.window.subjects, group.figures) for group in self._groups]
        slow = self._context.explain(slow, compared, self._tasks, now)
        slow += (links := self._links.diagnose())
        if condition.kind is Condition.STILL and condition.stillness and condition.stillness.seconds <= EVENT:
            return [*slow, *with_live_cost(self._context.open, gpus, self._gpu_price)]
        straggles = bool(links) or any(diagnosis.kind == "straggler" for diagnosis in slow)
        window, late = self._main.window, self._main.watch.named.late
        told = self._context.evaluate(window, self._tasks, straggles, condition.may_be_judged, now, late)
        return [*slow, *with_live_cost(told, gpus, self._gpu_price)] if condition.may_be_judged else []

    @property
    def _groups(self) -> tuple[SynchronousSubjects | AsynchronousWorkers, ...]:
        return self._workers, self._replicas, self._asynchronous

    @property
    def _main(self) -> SynchronousSubjects | AsynchronousWorkers:
        """The group whose steps are the cluster's."""
        if self._asynchronous:
            return self._asynchronous
        return self._workers if self._workers.table.subjects() else self._replicas

    def _stragglers(self) -> list[Diagnosis]:
        """Return the stragglers and imbalances of all groups."""
        workers, replicas = self._workers.diagnoses, self._replicas.diagnoses
        return [*without_duplicates(workers, replicas, self._replicas.window.subjects), *self._asynchronous.diagnoses]

    def _suspect(self, diagnoses: Sequence[Diagnosis], top: str) -> Suspect | None:
        """Return who looks slow while nobody is named, where neither a diagnosis nor the headline is about it."""
        suspect = self._main.watch.named.suspect
        if suspect is None or is_named(suspect.subject, top):
            return None
        told = [each for each in diagnoses if each.end is None]
        is_told = any(each.kind == "straggler" or each.subject == suspect.subject for each in told)
        return None if is_told else suspect

    def _findings(
        self,
        diagnoses: tuple[Diagnosis, ...],
        tasks: tuple[ObservedTask, ...],
        condition: ClusterCondition,
        step_time: float | None,
        now: float,
    ) -> Findings:
        main, trains = self._main, condition.kind is Condition.TRAINING
        resumed = -math.inf if condition.resumed is None else condition.resumed
        rounds = main.rate(resumed) if trains else 0.0 if condition.kind is Condition.STILL else None
        subjects = {name: summary for group in self._groups for name, summary in group.summaries().items()}
        stages = self._stages.summaries()
        subjects |= stages
        probe = _probe(tasks)
        examples, local_steps = probe.examples_per_step if probe else None, _local_steps(tasks)
        rate = rounds * local_steps if rounds is not None else None
        ratios = {name: summary.ratio for name, summary in subjects.items() if summary.ratio is not None}
        late = {name for name, each in subjects.items() if each.input and each.lag and each.input > each.lag / 2}
        costs = [cost for group in self._groups if (cost := group.slowdown()) is not None]
        top = headline(diagnoses, tasks, condition, rate, ratios, list(stages.values()), main.short_history, late)
        return Findings(
            diagnoses=diagnoses,
            headline=top,
            short_history=main.short_history,
            suspect=self._suspect(diagnoses, top) if trains else None,
            condition=condition,
            step_time=step_time if trains else None,
            steps_per_second=rate,
            examples_per_second=rounds * examples if rounds is not None and examples is not None else None,
            local_steps=local_steps,
            slowdown=max(costs, default=None) if trains else None,
            transfer=known_median(transfer(main.window.reduce)) if main.window.meets and trains else None,
            subjects=_as_of_now(subjects, tasks, trains, now),
            spent=self._context.spent,
        )


def _probe(tasks: Sequence[ObservedTask]) -> ProbeStatus | None:
    """Return what the first running task tells of the program."""
    return next((task.probe for task in tasks if task.probe and task.running), None)


def _local_steps(tasks: Sequence[ObservedTask]) -> int:
    probe = _probe(tasks)
    return (probe.local_steps or 1) if probe else 1


def _as_of_now(
    subjects: dict[str, SubjectSummary], tasks: Sequence[ObservedTask], trains: bool, now: float
) -> dict[str, SubjectSummary]:
    """Return the summaries; those of subjects that make no steps now without their times."""
    gone = {task.name for task in tasks if not (trains and task.running) or task.is_silent(now)}
    if not gone:
        return subjects
    return {
        name: SubjectSummary(each.step, each.global_step) if name.partition("/")[0] in gone else each
        for name, each in subjects.items()
    }


def without_duplicates(workers: list[Diagnosis], replicas: list[Diagnosis], subjects: Sequence[str]) -> list[Diagnosis]:
    """Return the diagnoses of tasks and of the replicas in them, each slowness once.

    A task of which every replica (of all `subjects`) is slow is slow itself; otherwise the replica alone is named.
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
