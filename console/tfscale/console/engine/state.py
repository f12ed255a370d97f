"""State of the cluster: events in, frozen `Snapshot` out. It has no clock, no input or output and no threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.analysis.findings import Findings, SubjectSummary, goes_on, sentence_key
from tfscale.console.analysis.steps.pipeline_stages import is_stage
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    MilestoneTold,
    PolicyTold,
    SecondPassed,
)
from tfscale.console.engine.model import Link, Snapshot, TaskView
from tfscale.console.engine.timeline.cluster_timeline import Timeline
from tfscale.console.engine.timeline.past import Past
from tfscale.console.history.history import History
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.place_rule import moves
from tfscale.core.cluster.placement.placement import (
    Placement,
    PlacementError,
    file_placement,
    parse_placement,
    seats_of,
)
from tfscale.core.cluster.task import Role, Task, subject_owner, subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.task_status import Stage, TaskState, TaskStatus

OUTCOME_SHOWN = 12.0
"""Seconds for which the headline shows the outcome of a command."""


class Analysis(Protocol):
    """The part of `Diagnostician` that the fold needs."""

    def observe(self, task: str, frame: Frame) -> None: ...
    def describe(self, task: str, description: Description) -> None: ...
    def note_link(self, task: str, up: bool, at: float, *, has_left: bool) -> None: ...
    def diagnose(self, now: float) -> Findings: ...


class ClusterState:
    """State of a cluster after all events so far; without a history for listeners that draw no charts.

    `past` is what another console has kept of the run.
    """

    def __init__(
        self, spec: ClusterSpec, analysis: Analysis, *, has_history: bool = True, past: Past | None = None
    ) -> None:
        self._spec = spec
        self._analysis = analysis
        self._history = History(spec.tasks) if has_history else None
        self._records = {task: _TaskRecord(task, str(task), agent) for task, agent in spec.agents.items()}
        self._placement = file_placement(spec)
        self._free_seats = _free_seats(spec, self._placement)
        self._newest_placement = ""
        """Placement that an agent has told last, as JSON: most tell the same."""
        self._timeline = Timeline()
        self._findings = Findings()
        self._open: dict[tuple[str, str, float], Diagnosis] = {}
        self._command: CommandProgressed | None = None
        self._commanded: frozenset[Task] = frozenset()
        self._past = past
        """Past that another console has kept, until an agent shows whether it is of this run."""
        self._reporting: set[Task] = set()
        self._reported: set[str] = set()

    @property
    def reporting(self) -> frozenset[Task]:
        """Tasks that have reported a step."""
        return frozenset(self._reporting)

    @property
    def expected_to_report(self) -> frozenset[Task]:
        """Tasks that report steps once the training runs."""
        roles = {task.role for task in self._spec.tasks}
        # Under ParameterServer the chief only hands out the work.
        training = {Role.WORKER} if Role.PS in roles else {Role.CHIEF, Role.WORKER}
        return frozenset(task for task in self._placement.seats if task.role in training)

    def fold(self, event: Event) -> None:
        """Take in one event. Every event comes exactly once, in order of arrival."""
        match event:
            case FrameArrived():
                self._fold_frame(event)
            case AgentDescribed(_, task, description):
                self._records[task].description = description
                self._record_placement(description.placement, event.at)
                self._analysis.describe(str(task), description)
                self._recall(task, description)
            case MilestoneTold(_, task, milestone):
                self._fold_milestone(task, milestone)
            case LinkChanged():
                self._fold_link(event)
            case CommandProgressed():
                self._fold_command(event)
            case PolicyTold(at, task, message):
                self._timeline.add(at, "warning", str(task), message, "policy")
            case SecondPassed() if self._history is not None:
                self._history.close_second()

    def snapshot(self, now: float) -> Snapshot:
        """Diagnose, and return the frozen result. `now` is Unix seconds."""
        self._findings = self._analysis.diagnose(now)
        changes = self._changes(self._findings, now)
        if self._command and _is_over(self._command) and now - self._command.at > OUTCOME_SHOWN:
            self._command, self._commanded = None, frozenset()
        snapshot = self._freeze(now, changes)
        if self._history is not None:
            self._history.figures.add(now, self._findings.steps_per_second, self._findings.efficiency, snapshot.loss)
        return snapshot

    def picture(self, now: float) -> Snapshot:
        """Return the state of now with the findings of the last `snapshot`."""
        return self._freeze(now, ())

    def known_links(self, now: float) -> tuple[Event, ...]:
        """Return the known connections and agents as events: a recording begins with them."""
        links = [
            LinkChanged(now, record.task, record.link.state, record.link.reason) for record in self._records.values()
        ]
        described = [(record.task, record.description) for record in self._records.values() if record.description]
        return (*links, *(AgentDescribed(now, task, description) for task, description in described))

    def _freeze(self, now: float, changes: tuple[Diagnosis, ...]) -> Snapshot:
        findings = self._findings
        views = self._views(findings)
        probes = [view.frame.probe for view in views if view.frame and view.frame.probe]
        generations = [view.status.generation for view in views if view.status]
        # No task may have been started in that of a command that failed.
        commanded = 0 if self._command is None else self._command.generation
        newest = max(*generations, commanded) if generations else None
        return Snapshot(
            at=now,
            run=next((view.description.run for view in views if view.description), self._spec.name),
            strategy=next((probe.strategy for probe in probes if probe.strategy), None),
            generation=newest,
            tasks=views,
            findings=findings,
            changes=changes,
            timeline=self._timeline.entries(),
            command=self._command,
            cordoned=self._placement.cordoned,
            free_seats=self._free_seats,
            device_peak=self._spec.device_peak,
            history=self._history,
        )

    def _record_placement(self, text: str, at: float) -> None:
        """Take in the placement that an agent names, if it is the newest, with an event for each change."""
        if not text or text == self._newest_placement:
            return
        self._newest_placement = text
        try:
            newest = parse_placement(text, self._spec)
        except PlacementError:  # of another cluster file, which the link's state tells
            return
        before = self._placement
        if not newest.is_newer(before):
            return
        self._placement, self._free_seats = newest, _free_seats(self._spec, newest)
        for each, seat in newest.seats.items():
            self._records[each].agent = seat
        for host, why in newest.cordoned.items():
            if host not in before.cordoned:
                self._timeline.add(
                    at, "warning", "cluster", f"{host} is cordoned: {why}; no task is placed there", "placement"
                )
        for host in before.cordoned:
            if host not in newest.cordoned:
                self._timeline.add(
                    at, "info", "cluster", f"{host} is uncordoned: tasks may be placed there", "placement"
                )
        if what := moves(before.seats, newest.seats):
            self._timeline.add(at, "info", "cluster", f"placed in generation {newest.generation}: {what}", "placement")

    def _recall(self, task: Task, description: Description) -> None:
        """Take in the past that another console has kept, if it is that of this agent's run."""
        if self._past is None or not self._past.is_of(task, description):
            return
        past, self._past = self._past, None
        self._timeline.recall(past.entries)
        if self._history is not None:
            for second, figures in past.figures:
                self._history.figures.recall(second, figures)

    def _fold_frame(self, event: FrameArrived) -> None:
        record, frame = self._records[event.task], event.frame
        self._analysis.observe(record.name, frame)
        if self._history is not None:
            self._history.fold(event.at, event.task, frame)
        for batch in frame.steps:
            if batch.subject not in self._reported and len(batch.sequence):
                self._reported.add(batch.subject)
                self._reporting.update(filter(None, [subject_task(batch.subject)]))
        self._add_status(event.task, record.status, frame.status, frame.at)
        record.frame = frame.with_steps(())

    def _fold_milestone(self, task: Task, milestone: Milestone) -> None:
        """Write down an event from before the first frame: it is shown, and not judged."""
        record = self._records[task]
        before, record.milestone = record.milestone, milestone
        self._add_status(task, before.status if before else None, milestone.status, milestone.at)
        unheard = before.unheard if before else ()
        for other in milestone.unheard:
            if other not in unheard:
                self._timeline.add_news(
                    milestone.at, "warning", task, f"does not hear {other}'s host any more", "agent"
                )
        for other in unheard:
            if other not in milestone.unheard:
                self._timeline.add_news(milestone.at, "good", task, f"hears {other}'s host again", "agent")

    def _add_status(self, task: Task, before: TaskStatus | None, after: TaskStatus, at: float) -> None:
        key = (after.state, after.generation, after.attempt)
        if before is not None and key == (before.state, before.generation, before.attempt):
            if after.reason not in ("", before.reason):
                # What becomes of a task that has ended, or what an order has done to one that goes on.
                self._timeline.add_news(at, "warning" if after.is_over else "info", task, after.reason, "task")
            return
        if before is None and after.state in (TaskState.RUNNING, TaskState.PENDING):
            return
        if task in self._commanded and _severity(after) != "critical":
            # The command's own progress has an entry already.
            self._timeline.name_giver(after.reason)
            return
        when = after.exit.at if after.exit and after.state is TaskState.EXITED else at
        self._timeline.add_status(when, _severity(after), task, after)

    def _fold_link(self, event: LinkChanged) -> None:
        record = self._records[event.task]
        is_up, before = event.state is LinkState.UP, record.link
        record.link = Link(event.state, event.reason, event.at if event.state is not before.state else before.since)
        if event.state is not LinkState.CONNECTING:
            self._analysis.note_link(str(event.task), is_up, event.at, has_left=event.state is LinkState.LEFT)
        if is_up and before.state not in (LinkState.CONNECTING, LinkState.UP):
            is_other = record.reached not in (None, record.agent)
            text = f"its agent is the one at {record.agent} now" if is_other else "agent is back"
            self._timeline.add_news(event.at, "info" if is_other else "good", event.task, text, "agent")
        elif not is_up and event.state is not before.state and event.state is not LinkState.CONNECTING:
            tells_all = event.state in (LinkState.LEFT, LinkState.MOVED)
            text = event.reason if tells_all else f"agent {event.state}: {event.reason}"
            has_ended_well = record.status is not None and record.status.exit is not None and record.status.exit.well
            self._timeline.add_news(event.at, "info" if has_ended_well else "warning", event.task, text, "agent")
        record.reached = record.agent if is_up else record.reached

    def _fold_command(self, event: CommandProgressed) -> None:
        self._command = event
        if event.stage is Stage.PLANNED:
            self._commanded = frozenset(event.tasks)
        self._timeline.add_command(event)

    def _changes(self, findings: Findings, now: float) -> tuple[Diagnosis, ...]:
        changes, noted = [], set[tuple[object, ...]]()
        for diagnosis in findings.diagnoses:
            key = (diagnosis.kind, diagnosis.subject, diagnosis.begin)
            before = self._open.get(key)
            is_news = before is None or _news_in(before) != _news_in(diagnosis)
            if is_news:
                changes.append(diagnosis)
            if is_news and sentence_key(diagnosis) not in noted:
                noted.add(sentence_key(diagnosis))
                self._note(diagnosis, findings, now)
            self._open[key] = diagnosis
            if diagnosis.end is not None:
                del self._open[key]
        return tuple(changes)

    def _note(self, diagnosis: Diagnosis, findings: Findings, now: float) -> None:
        if diagnosis.end is None or diagnosis.kind == "restart":
            self._timeline.add_diagnosis(diagnosis, now)
        elif not goes_on(diagnosis, findings.diagnoses):
            self._timeline.end_diagnosis(diagnosis)

    def _views(self, findings: Findings) -> tuple[TaskView, ...]:
        replicas: dict[str, dict[str, SubjectSummary]] = {}
        stages: dict[str, dict[str, SubjectSummary]] = {}
        for subject, summary in findings.subjects.items():
            if part := subject.partition("/")[2]:
                (stages if is_stage(part) else replicas).setdefault(subject_owner(subject), {})[subject] = summary
        diagnoses: dict[Task, list[Diagnosis]] = {}
        for diagnosis in findings.diagnoses:
            if diagnosis.end is None and (task := subject_task(diagnosis.subject)) is not None:
                diagnoses.setdefault(task, []).append(diagnosis)
        summaries = findings.subjects
        return tuple(
            record.view(
                summaries.get(record.name),
                replicas.get(record.name, {}),
                stages.get(record.name, {}),
                tuple(diagnoses.get(task, ())),
                findings.condition.stillness,
            )
            for task, record in self._records.items()
        )


@dataclass(slots=True)
class _TaskRecord:
    """Newest knowledge of one task."""

    task: Task
    name: str
    agent: Address
    reached: Address | None = None
    """Agent that was reached last; None before."""
    link: Link = field(default_factory=Link)
    description: Description | None = None
    frame: Frame | None = None
    milestone: Milestone | None = None
    """Last milestone from before the first frame."""

    @property
    def status(self) -> TaskStatus | None:
        """The newest that is known."""
        return self.frame.status if self.frame else self.milestone.status if self.milestone else None

    def view(
        self,
        summary: SubjectSummary | None,
        replicas: dict[str, SubjectSummary],
        stages: dict[str, SubjectSummary],
        diagnoses: tuple[Diagnosis, ...],
        still: Stillness | None,
    ) -> TaskView:
        if summary is None and replicas:
            summary = max(replicas.values(), key=lambda summary: summary.lag or 0.0)
        known = self.task, self.agent, self.link, self.description, self.frame
        awaited = None if still is None or still.is_expected else still.late.get(self.name)
        return TaskView(*known, summary, replicas, stages, diagnoses, awaited, self._waits_for(still))

    def _waits_for(self, still: Stillness | None) -> float | None:
        collective = self.frame.collective if self.frame else None
        if still is None or self.frame is None or collective is None or self.name in still.late:
            return None
        is_heard = self.link.state is LinkState.UP and self.frame.status.state is TaskState.RUNNING
        if not is_heard or collective.entered <= collective.left:
            return None
        return still.seconds if collective.entered_at is None else max(0.0, self.frame.at - collective.entered_at)


def _free_seats(spec: ClusterSpec, placement: Placement) -> dict[Address, bool]:
    held = set(placement.seats.values())
    return {seat: seat in spec.spares for seat in seats_of(spec) if seat not in held}


def _news_in(diagnosis: Diagnosis) -> tuple[object, ...]:
    """Return the parts of a diagnosis whose change is an event. Its sentence and numbers change every second."""
    evidence = diagnosis.evidence
    return diagnosis.severity, diagnosis.end, *(evidence.get(name) for name in ("phase", "cause", "followers"))


def _is_over(command: CommandProgressed) -> bool:
    return command.stage in (Stage.DONE, Stage.FAILED)


def _severity(status: TaskStatus) -> str:
    if status.state is TaskState.LOST:
        return "critical"
    if status.state is TaskState.EXITED and not (status.exit and status.exit.well):
        return "critical"
    return "good" if status.state is TaskState.RUNNING else "info"
