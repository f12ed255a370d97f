"""What is said beyond who straggles: why, what limits the cluster, what changed for all, where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tfscale.core.analysis.causes.cause_tracker import Compared, Explainer
from tfscale.core.analysis.causes.vitals import Samples, Vitals
from tfscale.core.analysis.run.drifts import DriftWatch
from tfscale.core.analysis.run.goodput import Goodput
from tfscale.core.analysis.run.saturation import Load, SaturationWatch
from tfscale.core.analysis.steps.impute import made_whole
from tfscale.core.analysis.steps.phases import transfer
from tfscale.core.analysis.steps.step_table import Aligned, StepTable
from tfscale.core.analysis.tasks.observed_task import TaskView
from tfscale.core.cluster import ClusterSpec
from tfscale.core.records import Diagnosis, Frame, TaskState
from tfscale.core.task import Role, Task, subject_owner

PERIOD = 5.0
"""Seconds between two judgements of everybody's counters, which hardly move faster."""
_AT_ONCE = 16
"""Tasks whose counters are condensed in one look, the rest of them in the looks between."""
MOST_WATCHED = 64
"""Tasks whose counters are looked at for the whole: medians need no more, and a thousand would cost too much."""
MANY, _SPACING = 250, 2.5
"""Tasks beyond which only the sample of every third second is kept; a sample of eight GPUs is a kilobyte."""
_ROWS = 60
_FEWEST_ROWS = 20


class Insight:
    """Folds the counters of all tasks, and looks at them together with the steps."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        spacing = _SPACING if len(spec.tasks) > MANY else 0.0
        self._samples = {str(task): Samples(spacing) for task in spec.tasks}
        self._watched = _shares([str(task) for task in _sample(spec)])
        self._vitals: dict[str, Vitals] = {}
        self._turn = 0
        """Looks since the last judgement."""
        self._explainer = Explainer()
        self._saturation = SaturationWatch()
        self._drift = DriftWatch()
        self._looked: float | None = None
        self._training = {str(task) for task in spec.tasks if task.role in (Role.CHIEF, Role.WORKER)}
        self._ran = 0.0
        self._goodput = Goodput()

    def fold(self, task: str, frame: Frame) -> None:
        """Take in the counters and the activities of a frame of a task that the spec knows."""
        self._samples[task].add(frame)
        if frame.status.state is TaskState.RUNNING:
            self._ran = max(self._ran, frame.at)
        if task in self._training:
            self._goodput.started(frame.status.started)
            self._goodput.activities(task, frame.activities)

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by bucket of goodput, up to when a task last ran."""
        return self._goodput.spent(self._ran)

    def explain(
        self, named: Sequence[Diagnosis], groups: Sequence[Compared], tasks: Mapping[str, TaskView]
    ) -> list[Diagnosis]:
        """Stragglers with their causes."""
        return self._explainer.explain(named, groups, tasks, self._samples)

    def look(self, window: Aligned, tasks: Mapping[str, TaskView], straggles: bool, now: float) -> list[Diagnosis]:
        """What limits the cluster, and what takes longer for all than it did; `window` is the newest steps."""
        if straggles:
            self._saturation.clear()
            self._vitals.clear()
            return self._drift.told()
        recent = made_whole(window.last(_ROWS))
        if self._looked is not None and 0 <= now - self._looked < PERIOD:
            self._turn += 1
            self._condense(self._watched[self._turn :][:1])
            limited = self._saturation.told()
        else:
            self._condense(self._watched[:1] if self._vitals else self._watched)
            self._looked, self._turn, vitals = now, 0, self._vitals
            load = self._load(recent, tasks, vitals) if len(recent) >= _FEWEST_ROWS else None
            limited = self._saturation.diagnose(load, vitals, self._speeds(vitals), now)
        return [*self._drift.diagnose(recent, now), *limited]

    def _condense(self, shares: Sequence[Sequence[str]]) -> None:
        self._vitals.update((name, self._samples[name].vitals()) for share in shares for name in share)

    def count(self, table: StepTable, subjects: Sequence[str], apart: str = "") -> None:
        """Put the steps that came since the last call into the buckets of the run's time; `apart` names the one worker
        whose steps stand for all, where each has numbers of its own."""
        if not subjects:
            return
        attempt = table.attempt(subjects[0])
        fresh = table.aligned(subjects, first=self._goodput.next_step((*attempt, apart)))
        newest, number = table.newest(subjects[0]), table.global_step(subjects[0])
        if len(fresh) and newest is not None:
            ahead = newest - int(fresh.sequence[-1])
            self._goodput.steps((*attempt, apart), fresh, None if number is None else number - ahead)

    def _load(self, recent: Aligned, tasks: Mapping[str, TaskView], vitals: Mapping[str, Vitals]) -> Load:
        lag, network = recent.lag, transfer(recent.reduce)
        update, _, fetch, compute = (float(np.median(plane)) for plane in recent.phases[:-1])
        names = list(dict.fromkeys(map(subject_owner, recent.subjects)))
        probe = next((view.probe for name in names if (view := tasks.get(name)) and view.probe), None)
        link, source = self._link(names, vitals)
        return Load(
            step=max(float(np.median(lag.max(axis=1) + network)), 1e-9),
            transfer=float(np.median(network)),
            input=fetch,
            compute=compute + update,
            ranks=probe.ranks if probe and probe.ranks else len(recent.subjects),
            payload=probe.reduced_bytes_per_step if probe else None,
            link=link,
            link_from=source,
        )

    def _speeds(self, vitals: Mapping[str, Vitals]) -> dict[str, float | None]:
        """Bits a second of each task's link, where the cluster file says so: drivers of virtual links invent them."""
        return {name: self._said(name) for name in vitals}

    def _said(self, name: str) -> float | None:
        return self._spec.link_speed(Task.parse(name))

    def _link(self, names: Sequence[str], vitals: Mapping[str, Vitals]) -> tuple[float | None, str | None]:
        """(bits a second of the slowest link that the all-reduce passes, who says so)."""
        said = [speed for speed in map(self._said, names) if speed is not None]
        if said:
            return min(said), "the cluster file"
        names = [name for name in names if name in vitals]
        claims = [vitals[name].link_claim for name in names]
        hosts = {self._spec.tasks[Task.parse(name)].host for name in names}
        if (
            not names
            or len(hosts) < len(names)
            or any(claim is None or self._is_refuted(name, claim) for name, claim in zip(names, claims, strict=True))
        ):
            return None, None
        return min(claim for claim in claims if claim is not None), "the interface's driver"

    def _is_refuted(self, name: str, claim: float) -> bool:
        """Whether more went over the link in some second than its driver says it can."""
        moved = self._samples[name].most_moved()
        return moved is not None and 8 * moved > claim


def _shares(names: Sequence[str]) -> list[Sequence[str]]:
    """In parts, of which each can have a look of its own between two judgements."""
    parts = min(int(PERIOD), max(1, -(-len(names) // _AT_ONCE)))
    return [names[part::parts] for part in range(parts)]


def _sample(spec: ClusterSpec) -> list[Task]:
    """The parameter servers, each of which may be a limit by itself, and of the others an even sample."""
    servers = [task for task in spec.tasks if task.role is Role.PS]
    others = [task for task in spec.tasks if task.role is not Role.PS]
    return [*servers[:MOST_WATCHED], *others[:: max(1, -(-len(others) // MOST_WATCHED))]]
