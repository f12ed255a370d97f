"""Findings beyond the straggler rule: causes, limits, slowdowns of all workers, and the use of the run's time.

All of them are read from the counters of hosts and GPUs together with the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from tfscale.console.analysis.baselines.baseline import BaselineStore
from tfscale.console.analysis.baselines.run_facts import RunIdentity, Work
from tfscale.console.analysis.baselines.slowdown_watch import Identity, SlowdownWatch, Spell
from tfscale.console.analysis.causes.cause_tracker import CauseTracker
from tfscale.console.analysis.causes.vitals import Samples, Vitals
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition
from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.finding_kinds import kind_of
from tfscale.console.analysis.findings import by_severity
from tfscale.console.analysis.network.link_speeds import BEYOND_IN_STEP, LinkSpeeds
from tfscale.console.analysis.network.uneven_servers import server_exchange
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.run.goodput import Goodput
from tfscale.console.analysis.run.load import WAITING, Load
from tfscale.console.analysis.run.saturation import SaturationWatch
from tfscale.console.analysis.run.time_shares import TimeShares
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.impute import impute
from tfscale.console.analysis.steps.phases import medians, transfer
from tfscale.console.analysis.steps.step_table import StepTable
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import CLUSTER, Role, Task, subject_owner
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.task_status import TaskState

PERIOD = 5.0
"""Seconds between two judgements of all counters, which are medians over 10 s and hardly move faster. Consoles judge
at the same moments, so that a limit begins at one time for all of them."""
_BATCH = 16
"""Tasks whose counters are condensed in one evaluation; the others follow in the next evaluations before the next
judgement. 64 tasks make four batches, one in each second of a period: smaller batches would not get through, larger
ones make single evaluations long."""
MOST_WATCHED = 64
"""Tasks whose counters are watched for limits of the cluster: a median over more would be the same, and costs more."""
BY_FILE = "the cluster file"
"""Source of a link's speed, as the evidence names it."""
MANY, _SPACING = 250, 2.5
"""Number of tasks above which only one sample in `_SPACING` seconds is kept: a sample of eight GPUs takes a
kilobyte."""
_ROWS, _FEWEST_ROWS = 60, 20
"""Newest steps over which the load is measured, and their least number, as in a window of the straggler rule:
medians of fewer would change the limits with noise, of more would show an older load."""


class ClusterContext(Detector):
    """Memory of the counters of all tasks, which are judged together with the steps."""

    def __init__(self, spec: ClusterSpec, baselines: BaselineStore | None = None) -> None:
        self._spec = spec
        self._speeds = LinkSpeeds(spec)
        spacing = _SPACING if len(spec.tasks) > MANY else 0.0
        self._samples = {str(task): Samples(spacing) for task in spec.tasks}
        self._batches = _split([str(task) for task in _watched(spec)])
        self._vitals: dict[str, Vitals] = {}
        """Condensed counters of the watched tasks; at most one period old."""
        self._turn = 0
        """Evaluations in this period since its first judgement."""
        self._judged: float | None = None
        """Number of the period of the last judgement of limits."""
        self._are_late = False
        """True where some worker's data came last at the last evaluation."""
        self._causes = CauseTracker()
        self._saturation = SaturationWatch()
        self._slowdown = SlowdownWatch(baselines)
        self._identity = RunIdentity()
        self._is_usual = True
        """False where the newest steps are beside a straggler, or of a cluster that is not at work."""
        self._training = {str(task) for task in spec.tasks if task.role in (Role.CHIEF, Role.WORKER)}
        self.ran = 0.0
        """Newest time at which a task ran, Unix seconds."""
        self._goodput = Goodput()
        self._parts: dict[str, int] = {}
        """Process of each subject whose steps were counted last."""
        self._processes = 0
        """Number of times that another process of a subject began to number its steps anew."""
        self._shares = TimeShares()

    def observe(self, task: str, frame: Frame) -> None:
        """Keep the counters and the activities of a frame of a task that the spec knows."""
        self._samples[task].add(frame)
        self._identity.observe(task, frame)
        if frame.status.state is TaskState.RUNNING:
            self.ran = max(self.ran, frame.at)
        if task in self._training:
            self._goodput.note_start(frame.status.started)
            self._goodput.note_activities(task, frame.activities)

    def describe(self, task: str, description: Description) -> None:
        """Take in an agent's description of its task."""
        self._identity.describe(task, description)

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the open slowdowns of all and limits of the cluster, and put the newest steps into the run's time."""
        found = self.open if view.is_brief_pause else self._judged_now(view)
        self.charge_standstill(view.found, view.condition)
        self.count_steps(view.by_name, *view.steps.counted)
        view.trained = self._slowdown.trained
        return found

    def _judged_now(self, view: ClusterView) -> list[Diagnosis]:
        # Beside an exchange that is not seen, the time of a phase may be a wait.
        unseen = "not_measured", CLUSTER
        straggles = any(
            each.kind in ("slow_link", "straggler") or (each.kind, each.subject) == unseen for each in view.found
        )
        at_work, late = view.condition.may_be_judged, view.steps.late
        return self.evaluate(view.steps.window, view.by_name, straggles, at_work, view.now, late)

    def explain(self, view: ClusterView) -> list[Diagnosis]:
        """Return all findings, stragglers with their causes."""
        return self._causes.explain(view.found, view.steps.compared, view.by_name, self._samples, view.now)

    def charge_standstill(self, diagnoses: Iterable[Diagnosis], condition: ClusterCondition) -> None:
        """Charge the time of a stillness, in the goodput, to the gravest of `diagnoses` that explains it."""
        stops = [diagnosis for diagnosis in diagnoses if kind_of(diagnosis).stops_training]
        if stops and (still := condition.stillness) is not None:
            charge = kind_of(min(stops, key=by_severity)).charges
            self._goodput.note_standstill(str(charge), still.since, still.since + still.seconds)

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by bucket of goodput, up to when a task ran last."""
        return self._goodput.spent(self.ran)

    @property
    def counted(self) -> Mapping[str, float]:
        """The part of `spent` that is settled: seconds up to the newest step."""
        return self._goodput.counted

    @property
    def open(self) -> list[Diagnosis]:
        """Open slowdowns of all and limits of the cluster, by the last judgement."""
        return [*self._slowdown.open, *self._saturation.open, *self._speeds.wrong]

    def evaluate(
        self,
        window: AlignedSteps,
        tasks: Mapping[str, ObservedTask],
        straggles: bool,
        is_at_work: bool,
        now: float,
        late: Sequence[str] = (),
    ) -> list[Diagnosis]:
        """Return the open slowdowns of all and limits of the cluster. `window` holds the newest steps.

        The subjects `late` get their data last, while the others' own speed of input is unknown. While a worker
        `straggles`, limits are not judged, and a slowdown of all stays unchanged. A cluster that is not at work is not
        judged: its counters are those of waiting, its steps are old.
        """
        is_whole = _is_whole(window.subjects, tasks)
        self._is_usual = is_at_work and not straggles and is_whole
        if straggles or not is_at_work:
            self._saturation.clear()
            self._vitals.clear()
            self._judged = None
            return self.open
        is_late_anew, self._are_late = bool(late) and not self._are_late, bool(late)
        period = now // PERIOD
        # The first judgement waits for its moment, too: a beginning is known to some consoles sooner than to others.
        self._judged = period if self._judged is None else self._judged
        if not is_late_anew and self._judged == period:
            self._turn += 1
            self._condense(self._batches[self._turn :][:1] if self._vitals else ())
        else:
            self._condense(self._batches[:1] if self._vitals else self._batches)
            self._turn = self._turn if self._judged == period else 0
            self._judged = period
            # The counters of a task that has ended, or whose agent is silent, are no longer those of now.
            vitals = {name: newest for name, newest in self._vitals.items() if not _has_gone(tasks.get(name))}
            self._check_speeds(vitals, now)
            recent = impute(window.last(_ROWS))
            load = self._load(recent, is_whole, late, tasks, vitals, now) if len(recent) >= _FEWEST_ROWS else None
            speeds = {name: self._speeds.given(name) for name in vitals}
            shares, servers = self._shares.since(self.ran), server_exchange(tasks.values())
            self._saturation.diagnose(load, vitals, speeds, now, shares, servers)
        return self.open

    def _check_speeds(self, names: Iterable[str], now: float) -> None:
        for name in names:
            if (moved := self._samples[name].most_moved) is not None:
                self._speeds.note_carried(name, 8 * moved, now)

    def _condense(self, batches: Sequence[Sequence[str]]) -> None:
        self._vitals.update((name, self._samples[name].vitals()) for batch in batches for name in batch)

    def count_steps(
        self, tasks: Mapping[str, ObservedTask], table: StepTable, subjects: Sequence[str], numbering: str = ""
    ) -> None:
        """Put the steps since the last call into the buckets of the run's time, and compare them with baselines.

        `numbering` names the one worker whose steps stand for all, where each worker numbers its own.
        """
        if not subjects:
            return
        attempt = (*table.attempt(subjects[0]), self._process(table, subjects), numbering)
        first = self._goodput.next_step(attempt)
        known = table.aligned(subjects, first=first - 1)
        if first:
            # Frames from after a clock was set forward have brought `ran` along.
            self.ran += min(0.0, self._goodput.follow_clock(known))
        fresh = known.after(first - 1)
        newest, number = table.newest(subjects[0]), table.global_step(subjects[0])
        if len(fresh) and newest is not None:
            ahead = newest - int(fresh.sequence[-1])
            self.ran += self._goodput.add_steps(attempt, fresh, None if number is None else number - ahead)
            self._shares.sample(self._goodput)
            self._compare(tasks, attempt, fresh)

    def _process(self, table: StepTable, subjects: Sequence[str]) -> int:
        """Return the number of the processes that make the steps.

        It is another one once the first subject has a later process, and not where another subject comes first, because
        the one before has ended: all number the same steps.
        """
        parts = {subject: table.part(subject) for subject in subjects if table.newest(subject) is not None}
        first = subjects[0]
        self._processes += self._parts.get(first, table.part(first)) != table.part(first)
        self._parts |= parts
        return self._processes

    def _compare(self, tasks: Mapping[str, ObservedTask], attempt: tuple[int | str, ...], fresh: AlignedSteps) -> None:
        """Compare the steps with their earlier times."""
        names = list(dict.fromkeys(map(subject_owner, fresh.subjects)))
        probe = next((task.probe for name in names if (task := tasks.get(name)) and task.probe), None)

        def identify() -> Identity:
            starts = (task.status.started for name in names if (task := tasks.get(name)) and task.status)
            started = max((start for start in starts if start is not None), default=0.0)
            known = self._identity
            return Identity(started, known.attempt(names, tasks), known.key(names, probe), known.facts(names, probe))

        size = probe.replicas if probe and probe.replicas else len(fresh.subjects)
        self._slowdown.compare(Spell(attempt, size, Work.of(probe)), fresh, identify, self._is_usual)

    def _load(
        self,
        recent: AlignedSteps,
        is_whole: bool,
        late: Sequence[str],
        tasks: Mapping[str, ObservedTask],
        vitals: Mapping[str, Vitals],
        now: float,
    ) -> Load:
        lag, network = recent.lag, transfer(recent.reduce)
        update, _, fetch, compute = (float(np.median(plane)) for plane in recent.phases[:-1])
        last = [column for column, name in enumerate(recent.subjects) if name in late]
        fetch = max((float(np.median(recent.phases[2][:, column])) for column in last), default=fetch)
        waits = medians(recent.phases[2]) >= WAITING * fetch
        waiting = () if waits.all() else tuple(np.array(recent.subjects)[waits].tolist())
        names = list(dict.fromkeys(map(subject_owner, recent.subjects)))
        probe = next((task.probe for name in names if (task := tasks.get(name)) and task.probe), None)
        link, source = self._slowest_link(names, vitals)
        load = Load(
            step=max(float(np.median(lag.max(axis=1) + network)), 1e-9),
            transfer=float(np.median(network)),
            input=fetch,
            compute=compute + update,
            ranks=len(recent.subjects),
            link=link,
            link_source=source,
            is_whole=is_whole,
            late=tuple(recent.subjects[column] for column in last),
            waiting=waiting,
        )
        load = load.of_program(probe)
        if not load.bus or not load.link or load.bus < BEYOND_IN_STEP * load.link:
            return load
        if source == BY_FILE and self._are_apart(names):
            slowest = min(names, key=lambda name: self._speeds.given(name) or math.inf)
            self._speeds.note_carried(slowest, load.bus, now, BEYOND_IN_STEP)
        return replace(load, link=None, link_source=None)

    def _are_apart(self, names: Sequence[str]) -> bool:
        """Decide whether each task has a host of its own, so that its exchanges pass links."""
        return len({self._spec.tasks[Task.parse(name)].host for name in names}) == len(names)

    def _slowest_link(self, names: Sequence[str], vitals: Mapping[str, Vitals]) -> tuple[float | None, str | None]:
        """Return (bits a second of the slowest link of the all-reduce, the source of this number)."""
        configured = [speed for speed in map(self._speeds.given, names) if speed is not None]
        if configured:
            return min(configured), BY_FILE
        names = [name for name in names if name in vitals]
        claims = [vitals[name].link_claim for name in names]
        if (
            not names
            or not self._are_apart(names)
            or any(claim is None or self._is_refuted(name, claim) for name, claim in zip(names, claims, strict=True))
        ):
            return None, None
        return min(claim for claim in claims if claim is not None), "the interface's driver"

    def _is_refuted(self, name: str, claim: float) -> bool:
        """Decide whether the link carried more in some second than its driver claims to be possible."""
        moved = self._samples[name].most_moved
        return moved is not None and 8 * moved > claim


def _is_whole(subjects: Sequence[str], tasks: Mapping[str, ObservedTask]) -> bool:
    """Decide whether the steps of all workers that meet in the all-reduce are known."""
    known = set(map(subject_owner, subjects))
    if any(task.coordinator is not None for task in tasks.values()):
        return True
    return all(name in known for name, task in tasks.items() if task.meets and not task.is_over)


def _has_gone(task: ObservedTask | None) -> bool:
    """Decide whether a task has ended, or its agent is silent."""
    if task is None:
        return False
    return task.is_over or (task.since is not None and not task.up)


def _split(names: Sequence[str]) -> list[Sequence[str]]:
    """Split tasks into batches of about _BATCH, at most one for each evaluation of a period."""
    count = min(int(PERIOD), max(1, -(-len(names) // _BATCH)))
    return [names[first::count] for first in range(count)]


def _watched(spec: ClusterSpec) -> list[Task]:
    """Return the parameter servers, each of which may be a limit by itself, and an even sample of the other tasks."""
    servers = [task for task in spec.tasks if task.role is Role.PS]
    others = [task for task in spec.tasks if task.role is not Role.PS]
    return [*servers[:MOST_WATCHED], *others[:: max(1, -(-len(others) // MOST_WATCHED))]]
