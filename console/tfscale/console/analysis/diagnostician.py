"""The diagnosis: passes frames to all detectors, and about once a second asks each for its findings."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial

from tfscale.console.analysis.baselines.baseline import BaselineStore
from tfscale.console.analysis.condition.cluster_condition import Condition, ConditionWatch
from tfscale.console.analysis.condition.start_stages import StartWatch
from tfscale.console.analysis.conspicuous import Conspicuous, ConspicuousWatch
from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.detectors import DETECTORS, Watched
from tfscale.console.analysis.finding_kinds import Group, kind_of
from tfscale.console.analysis.findings import Findings, SubjectSummary, by_cost
from tfscale.console.analysis.headline import headline, quoted
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.seats import SeatWatch
from tfscale.console.analysis.open_diagnoses import OpenDiagnoses
from tfscale.console.analysis.run.cluster_context import ClusterContext
from tfscale.console.analysis.run.live_cost import gpus_at_work, with_live_cost
from tfscale.console.analysis.run.pace_drop import PaceDrop
from tfscale.console.analysis.step_groups import StepGroups
from tfscale.console.analysis.steps.phases import transfer
from tfscale.console.analysis.steps.step_summary import known_median
from tfscale.console.analysis.stragglers.straggler_rule import Rule, Suspect
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.probe_status import ProbeStatus


class Diagnostician:
    """Memory of every agent's frames, in order of arrival; about once a second it returns the findings."""

    def __init__(self, spec: ClusterSpec, baselines: BaselineStore | None = None) -> None:
        self._tasks = {str(task): ObservedTask(task) for task in spec.tasks}
        self._steps = StepGroups(self._tasks, Rule())
        self._context = ClusterContext(spec, baselines)
        self._seats = SeatWatch(spec)
        watched = Watched(spec, self._seats, self._tasks, self._steps, self._context)
        self._detectors = tuple(make(watched) for make in DETECTORS)
        # With a thousand agents a call that does nothing costs, too.
        self._observers = [each.observe for each in self._detectors if type(each).observe is not Detector.observe]
        self._gpu_price = spec.gpu_price
        self._now = 0.0
        self._condition = ConditionWatch()
        self._open = OpenDiagnoses()
        self._pace_drop = PaceDrop()
        self._conspicuous = ConspicuousWatch()
        self._starts = StartWatch()

    def observe(self, task: str, frame: Frame) -> None:
        """Take in one frame of one task's agent; frames of tasks outside the spec are left out."""
        if task not in self._tasks:
            return
        self._tasks[task].observe(frame)
        self._starts.observe(self._tasks[task])
        for observe in self._observers:
            observe(task, frame)

    def describe(self, task: str, description: Description) -> None:
        """Take in an agent's description of its task."""
        self._context.describe(task, description)
        self._seats.note(description.placement, self._now)

    def note_link(self, task: str, up: bool, at: float, *, has_left: bool = False) -> None:
        """Take in that the connection to a task's agent came (`up`) or went, at `at` on the observer's clock.

        An agent that `has_left` has left its task to the next agent.
        """
        if (observed := self._tasks.get(task)) is not None:
            observed.note_link(up, at)
            observed.has_left = has_left

    def diagnose(self, now: float) -> Findings:
        """Return the findings at `now`, Unix seconds on the observer's clock."""
        self._now = now
        view = self._view(now)
        for detector in self._detectors:
            view.found += detector.diagnose(view)
        view.found = with_live_cost(view.found, gpus_at_work(view.tasks), self._gpu_price)
        for detector in self._detectors:
            view.found = detector.explain(view)
        present = [each for each in view.found if view.has_pace or kind_of(each).group is not Group.PACE]
        still = None if view.has_pace else view.condition.stillness
        diagnoses = self._open.update(
            present,
            now,
            self._steps.recovered,
            still_since=still.since if still else None,
            not_judged={} if view.has_pace else _not_judged(view),
            why_not_over=partial(self._why_not_over, beside={each.kind for each in present}),
        )
        trains = view.condition.may_be_judged
        return self._findings(tuple(sorted(diagnoses, key=lambda each: by_cost(each, trains))), view)

    def _why_not_over(self, diagnosis: Diagnosis, beside: Collection[str]) -> str | None:
        """Return why a finding that has ended is not over, a key of `NOT_JUDGED_WHY`; None where it is.

        Findings of the kinds in `beside` are open.
        """
        task = self._tasks.get(diagnosis.subject)
        if diagnosis.kind == "cut_off" and self._seats.has_moved(diagnosis.subject, diagnosis.begin):
            return "moved"
        if diagnosis.kind == "still" and "hang" in beside:
            return "hang"
        if diagnosis.kind != "crash" or task is None or task.running:
            return None
        return "other_crash" if "crash" in beside else "not_running"

    def _view(self, now: float) -> ClusterView:
        """Return the facts about the cluster that precede all detectors."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.note_heard(now)
        steps, step_time = self._steps.judge(_local_steps(tasks)), self._steps.main.step_time()
        condition = self._condition.judge(tasks, step_time, now)
        if condition.stillness is not None and not (condition.stillness.is_habit or condition.stillness.is_expected):
            for task in tasks:
                task.is_held_up = True
        return ClusterView(now, self._tasks, condition, steps)

    def _suspect(
        self, diagnoses: Sequence[Diagnosis], top: Diagnosis | None, conspicuous: Conspicuous | None
    ) -> Suspect | None:
        """Return the subject that looks slow, while nobody is named and no diagnosis or headline is about it."""
        suspect = self._steps.main.watch.named.suspect
        if suspect is None:
            return None
        if top is None and conspicuous is not None and conspicuous.ratio is not None:
            return None
        open_ones = [each for each in diagnoses if each.end is None]
        is_told = any(each.kind == "straggler" or each.subject == suspect.subject for each in open_ones)
        return None if is_told or (top is not None and suspect.subject in top.named()) else suspect

    def _findings(self, diagnoses: tuple[Diagnosis, ...], view: ClusterView) -> Findings:
        main, condition = self._steps.main, view.condition
        trains = condition.kind is Condition.TRAINING
        resumed = -math.inf if condition.resumed is None else condition.resumed
        rounds = main.rate(resumed) if trains else 0.0 if condition.kind is Condition.STILL else None
        stages = self._steps.stage_summaries()
        subjects = self._steps.summaries() | stages
        probe = _probe(view.tasks)
        examples = probe.examples_per_step if probe else None
        rate = rounds * view.steps.local_steps if rounds is not None else None
        ratios = {name: summary.ratio for name, summary in subjects.items() if summary.ratio is not None}
        late = {name for name, each in subjects.items() if each.input and each.lag and each.input > each.lag / 2}
        top = quoted(diagnoses, view.tasks, condition)
        short = main.short_history
        judged = [task.name for task in view.tasks if task.meets and task.progressed is not None] if trains else []
        conspicuous = self._conspicuous.judge(judged, ratios, main.watch.named.suspect if trains else None, view.now)
        self._pace_drop.remember(view.now, rate)
        starts = self._starts.starts()
        sentence = headline(
            diagnoses,
            view.tasks,
            condition,
            steps_per_second=rate,
            conspicuous=conspicuous or self._conspicuous.faster(judged, ratios, view.now),
            stages=list(stages.values()),
            short=short,
            late=late,
            drop=self._pace_drop.newest,
            starts=starts,
        )
        return Findings(
            diagnoses=diagnoses,
            headline=sentence,
            top=top,
            short_history=short,
            suspect=self._suspect(diagnoses, top, conspicuous) if trains else None,
            condition=condition,
            step_time=main.step_time() if trains else None,
            steps_per_second=rate,
            examples_per_second=rounds * examples if rounds is not None and examples is not None else None,
            local_steps=view.steps.local_steps,
            slowdown=self._steps.slowdown if trains else None,
            transfer=known_median(transfer(main.window.reduce)) if main.window.meets and trains else None,
            subjects=_as_of_now(subjects, view.tasks, trains, view.now),
            spent=self._context.spent,
            counted=self._context.counted,
            ran=self._context.ran,
            starts=starts,
        )


def _not_judged(view: ClusterView) -> dict[Group, str]:
    """Return the groups whose findings are not judged without steps, each with the reason."""
    has_failed = any(task.is_over and not task.ended_well for task in view.tasks)
    return {Group.PACE: view.condition.kind.value} | ({Group.STANDSTILL: "failed"} if has_failed else {})


def _probe(tasks: Sequence[ObservedTask]) -> ProbeStatus | None:
    """Return the first running task's facts about the program."""
    return next((task.probe for task in tasks if task.probe and task.running), None)


def _local_steps(tasks: Sequence[ObservedTask]) -> int:
    probe = _probe(tasks)
    return (probe.local_steps or 1) if probe else 1


def _as_of_now(
    subjects: dict[str, SubjectSummary], tasks: Sequence[ObservedTask], trains: bool, now: float
) -> dict[str, SubjectSummary]:
    """Return the summaries; subjects that make no steps now lose their times."""
    gone = {task.name for task in tasks if not (trains and task.running) or task.is_silent(now)}
    if not gone:
        return subjects
    return {
        name: SubjectSummary(each.step, each.global_step) if name.partition("/")[0] in gone else each
        for name, each in subjects.items()
    }
